"""The operator, installed from the shipped manifests as docs/security.md tells."""

import json
from typing import Any

import yaml

from tests.e2e.kind.cluster import Kind
from tests.e2e.kind.machine import ROOT

SYSTEM = "spotrun-system"
RIGHTS = ("rbac.yaml", "rbac-users.yaml", "admission.yaml", "flowschema.yaml")


def install(kind: Kind, image: str) -> None:
    """Apply the CRDs, the rights and the Deployment, and wait until its replicas are ready."""
    kind.kubectl("apply", "--server-side", "--filename", str(ROOT / "crds"))
    kind.kubectl("wait", "--for=condition=Established", "--filename", str(ROOT / "crds"))
    for file in RIGHTS:
        kind.kubectl("apply", "--filename", str(ROOT / "manifests" / file))
    documents = list(yaml.safe_load_all((ROOT / "manifests/operator.yaml").read_text()))
    changed = {"apiVersion": "v1", "kind": "List", "items": [_ours(d, image) for d in documents]}
    kind.kubectl("apply", "--filename=-", given=json.dumps(changed))
    kind.kubectl("-n", SYSTEM, "rollout", "status", "deployment/spotrun", "--timeout=180s")


def _ours(document: dict[str, Any], image: str) -> dict[str, Any]:
    """With our image, for namespaces that enforce restricted, and away from spot nodes."""
    if document["kind"] == "Deployment":
        pod = document["spec"]["template"]["spec"]
        pod["nodeSelector"] = {"karpenter.sh/capacity-type": "on-demand"}
        (container,) = document["spec"]["template"]["spec"]["containers"]
        container["image"] = image
        (restricted,) = (e for e in container["env"] if e["name"] == "SPOTRUN_RESTRICTED")
        restricted["value"] = "true"
    return document
