"""The objects of a run, as a person would have written them. Pure."""

import base64
from collections.abc import Mapping
from typing import Any

import yaml

from spotrun.api.names import API_VERSION, LABEL_RUN, TRAINING_JOB
from spotrun.cli.submit.package import Package
from spotrun.cli.submit.wishes import Wishes

CODE = "/code"
"""The folder in which the script is, and in which it runs."""
Manifest = dict[str, Any]


def config_map(name: str, package: Package) -> Manifest:
    """Return the ConfigMap with the files; the same files give the same one."""
    texts: dict[str, str] = {}
    others: dict[str, str] = {}
    for key, path in package.keys.items():
        content = package.files[path]
        text = _as_text(content)
        if text is not None:
            texts[key] = text
        else:
            others[key] = base64.b64encode(content).decode()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": code_name(name, package), "labels": {str(LABEL_RUN): name}},
        "immutable": True,
        **({"data": texts} if texts else {}),
        **({"binaryData": others} if others else {}),
    }


def code_name(name: str, package: Package) -> str:
    """Return the name of the ConfigMap: that of the job, and of the content."""
    return f"{name}-{package.digest}"


def training_job(name: str, image: str, package: Package, wishes: Wishes) -> Manifest:
    """Return the TrainingJob; what was not asked for is left to the API's defaults."""
    spec: Manifest = {"workers": _workers(name, image, package, wishes)}
    if wishes.capacity:
        spec["placement"] = {"capacity": wishes.capacity}
    if wishes.deadline:
        spec["deadline"] = {"finishWithin": wishes.deadline}
    if wishes.budget_usd:
        # Suspend, the default, needs a checkpoint that outlives the pods.
        at_the_limit = {} if wishes.checkpoint else {"onExceeded": "Fail"}
        spec["budget"] = {"maxCostUsd": wishes.budget_usd, **at_the_limit}
    if wishes.checkpoint:
        spec["checkpoint"] = _place(wishes.checkpoint)
    return {
        "apiVersion": str(API_VERSION),
        "kind": str(TRAINING_JOB),
        "metadata": {"name": name},
        "spec": spec,
    }


def owned_by(job: Mapping[str, Any]) -> Manifest:
    """Return the owner reference that has the files deleted with the job."""
    return {
        "apiVersion": str(API_VERSION),
        "kind": str(TRAINING_JOB),
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
    }


def as_yaml(*objects: Manifest) -> str:
    """Write objects as YAML, scripts as they are."""
    return yaml.dump_all(
        objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False
    )


def _workers(name: str, image: str, package: Package, wishes: Wishes) -> Manifest:
    container: Manifest = {
        "name": "trainer",
        "image": image,
        "args": [package.entry, *wishes.arguments],
        "workingDir": CODE,
        "volumeMounts": [{"name": "code", "mountPath": CODE, "readOnly": True}],
    }
    if wishes.environment:
        container["env"] = [{"name": k, "value": v} for k, v in wishes.environment.items()]
    if resources := _resources(wishes):
        container["resources"] = resources
    source: Manifest = {"name": code_name(name, package)}
    if any(key != path for key, path in package.keys.items()):
        source["items"] = [{"key": key, "path": path} for key, path in package.keys.items()]
    template = {
        "spec": {
            "containers": [container],
            "volumes": [{"name": "code", "configMap": source}],
        }
    }
    return {"min": wishes.least, "max": wishes.most, "template": template}


def _resources(wishes: Wishes) -> Manifest:
    requests = {k: v for k, v in (("cpu", wishes.cpu), ("memory", wishes.memory)) if v}
    limits = {"nvidia.com/gpu": wishes.gpus} if wishes.gpus else {}
    return {k: v for k, v in (("requests", requests), ("limits", limits)) if v}


def _place(checkpoint: str) -> Manifest:
    """Return a place for checkpoints: an address of an object store, or a claim."""
    if "://" in checkpoint:
        return {"uri": checkpoint}
    return {"volume": {"persistentVolumeClaim": {"claimName": checkpoint}}}


def _as_text(content: bytes) -> str | None:
    """Return the text; None for other content, which a ConfigMap keeps as base64."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return text if "\0" not in text else None


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, which people can read."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    if "\x85" in text:  # it ends a line in a block
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
