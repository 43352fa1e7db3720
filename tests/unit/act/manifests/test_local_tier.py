"""The local tier of checkpoints in a worker's pod."""

import json
from dataclasses import replace
from typing import Any

import pytest

from spotrun.act.manifests import local_tier
from spotrun.act.manifests.worker_pod import worker_pod
from spotrun.act.manifests.worker_settings import Settings
from spotrun.state.actions import Create
from tests.support.jobs.builders import a_job

SETTINGS = Settings(server="sync.spotrun-system:9443", ca_pem="PEM")
DURABLE = {"uri": "s3://bucket/checkpoints"}


def pod_of(**checkpoint: Any) -> Any:
    job = a_job()
    content = {**job.spec.manifest(), "checkpoint": {**DURABLE, **checkpoint}}
    read = type(job.spec).model_validate_json(json.dumps(content))
    return worker_pod(replace(job.snapshot(), spec=read), Create(3), SETTINGS)["spec"]


def env_of(spec: Any) -> dict[str, Any]:
    return {
        one["name"]: one.get("value", one.get("valueFrom")) for one in spec["containers"][0]["env"]
    }


@pytest.mark.parametrize(
    ("local", "source", "told"),
    [
        ({}, {"medium": "Memory"}, {"MEDIUM": "Memory", "EVERY": "auto"}),
        ({"medium": ""}, {}, {"MEDIUM": "", "EVERY": "auto"}),
        (
            {"sizeLimit": "2Gi", "every": "30s"},
            {"medium": "Memory", "sizeLimit": "2Gi"},
            {"MEDIUM": "Memory", "EVERY": "30s", "BYTES": str(2 << 30)},
        ),
    ],
)
def test_it_is_a_folder_of_the_worker(
    local: dict[str, Any], source: dict[str, str], told: dict[str, str]
) -> None:
    spec = pod_of(local=local)
    assert spec["volumes"][-1] == {"name": "spotrun-local", "emptyDir": source}
    mount = {"name": "spotrun-local", "mountPath": local_tier.PATH}
    assert spec["containers"][0]["volumeMounts"][-1] == mount
    env = env_of(spec)
    assert env["SPOTRUN_LOCAL"] == local_tier.PATH
    assert env["SPOTRUN_NODE"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert told == {key: env[f"SPOTRUN_LOCAL_{key}"] for key in told}
    assert ("SPOTRUN_LOCAL_BYTES" in env) == ("BYTES" in told)


def test_without_it_a_pod_has_nothing_of_it() -> None:
    spec = pod_of()
    assert not [name for name in env_of(spec) if name.startswith(("SPOTRUN_LOCAL", "SPOTRUN_NODE"))]
    assert "spotrun-local" not in {volume["name"] for volume in spec["volumes"]}
