"""Kueue as a process beside the API server of a test cluster.

It makes its own authority and puts it into its webhooks, as in every cluster. This module does the
kubelet's part: it writes the served certificate to a folder. The certificate is valid for a
loopback address, because addresses of Services are not routed here.
"""

import base64
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from devcluster.addresses import free_port
from devcluster.certificates import Authority
from devcluster.cluster import Cluster
from devcluster.kueue import program

NAMESPACE = "kueue-system"
_HOST = "127.0.0.1"
_SECRET = "kueue-webhook-server-cert"  # noqa: S105 - a name
_CONVERTED = {"workloads", "localqueues", "clusterqueues", "cohorts", "multikueueclusters"}
_WEBHOOKS = {
    "MutatingWebhookConfiguration": "mutating",
    "ValidatingWebhookConfiguration": "validating",
}
_PATIENCE_SECONDS = 60.0

Manifest = dict[str, Any]


@contextmanager
def kueue(
    cluster: Cluster,
    folder: Path,
    features: Mapping[str, bool] = {},
    settings: Mapping[str, Any] = {},
) -> Iterator[int]:
    """Run Kueue for a cluster, and yield its process ID; its log is in the folder.

    The settings are further fields of its Configuration, such as `multiKueue`.
    """
    files = program.ensure(_say)
    webhook, health = free_port(_HOST), free_port(_HOST)
    certificates = folder / "certificates"
    certificates.mkdir(parents=True)
    _install(cluster, files, f"https://{_HOST}:{webhook}")
    config = folder / "config.yaml"
    config.write_text(json.dumps({**_config(webhook, health, certificates, features), **settings}))
    with (folder / "kueue.log").open("wb") as log:
        process = subprocess.Popen(
            [files / "kueue", f"--config={config}"],
            env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
            stdout=log,
            stderr=log,
        )
    try:
        _serve_certificate(cluster, certificates)
        _wait(lambda: _answers(f"http://{_HOST}:{health}/readyz"), process, "ready")
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _install(cluster: Cluster, files: Path, url: str) -> None:
    """Apply the CRDs and the webhooks, which the API server calls at this address."""
    found = [one for file in sorted(files.glob("*.yaml")) for one in _documents(file)]
    crds = [_converted(one, url) for one in found if one["kind"] == "CustomResourceDefinition"]
    hooks = [_hooked(one, url) for one in found if one["kind"] in _WEBHOOKS]
    secret = {"kind": "Secret", "apiVersion": "v1", "metadata": _named(_SECRET, NAMESPACE)}
    space = {"kind": "Namespace", "apiVersion": "v1", "metadata": _named(NAMESPACE)}
    manifest = {"apiVersion": "v1", "kind": "List", "items": [space, secret, *crds, *hooks]}
    cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(manifest))


def _documents(file: Path) -> list[Manifest]:
    return [one for one in yaml.safe_load_all(file.read_text()) if one]


def _converted(crd: Manifest, url: str) -> Manifest:
    if crd["spec"]["names"]["plural"] in _CONVERTED:
        webhook = {"clientConfig": {"url": f"{url}/convert"}, "conversionReviewVersions": ["v1"]}
        crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return crd


def _hooked(configuration: Manifest, url: str) -> Manifest:
    """Keep only the webhooks for Kueue's own kinds: others are for workloads of other operators."""
    own = [one for one in configuration["webhooks"] if "kueue-x-k8s-io" in _path(one)]
    for one in own:
        one["clientConfig"] = {"url": url + _path(one)}
    name = f"kueue-{_WEBHOOKS[configuration['kind']]}-webhook-configuration"
    return {**configuration, "metadata": {"name": name}, "webhooks": own}


def _path(webhook: Manifest) -> str:
    path: str = webhook["clientConfig"]["service"]["path"]
    return path


def _named(name: str, namespace: str | None = None) -> Manifest:
    return {"name": name, **({"namespace": namespace} if namespace else {})}


def _config(
    webhook: int, health: int, certificates: Path, features: Mapping[str, bool]
) -> Manifest:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"{_HOST}:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": _HOST, "port": webhook, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": True},
        "integrations": {
            "frameworks": ["batch/job"],
            "externalFrameworks": ["TrainingJob.v1alpha1.spotrun.dev"],
        },
        "clientConnection": {"qps": 300, "burst": 500},
        "featureGates": {"VisibilityOnDemand": False, **features},
    }


def _serve_certificate(cluster: Cluster, folder: Path) -> None:
    """Sign a certificate with the authority that Kueue makes, as soon as it exists."""
    found: Manifest = {}

    def has_authority() -> bool:
        text = cluster.kubectl("get", "secret", _SECRET, "-n", NAMESPACE, "-o", "json").stdout
        found.update(json.loads(text).get("data") or {})
        return "ca.key" in found

    _wait(has_authority, None, "sure of its authority")
    ca, key = (base64.b64decode(found[name]) for name in ("ca.crt", "ca.key"))
    pair = Authority.of(folder / "signed", ca, key).serving("webhook", _HOST)
    (folder / "ca.crt").write_bytes(ca)
    (folder / "tls.key").write_bytes(pair.key_file.read_bytes())
    (folder / "tls.crt").write_bytes(pair.cert_file.read_bytes())


def _answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - loopback
        return bool(answer.status == 200)
    return False


def _wait(holds: Callable[[], bool], process: "subprocess.Popen[bytes] | None", what: str) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until and (process is None or process.poll() is None):
        if holds():
            return
        time.sleep(0.05)
    raise RuntimeError(f"Kueue did not become {what}: see its log")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
