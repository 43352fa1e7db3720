"""The operator, installed with Helm as docs/install.md tells."""

import json

from charts import helm
from charts.manifests import CHART
from tests.e2e.kind.cluster import KUBECONFIG, Kind

SYSTEM, RELEASE = "spotrun-system", "spotrun"


def install(kind: Kind, image: str, *changes: str) -> None:
    """Install the chart, or upgrade what is there, and wait until its replicas are ready."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": SYSTEM, "labels": restricted},
    }
    kind.kubectl("apply", "--filename=-", given=json.dumps(namespace))
    repository, _, tag = image.rpartition(":")
    values = (
        *(f"--set-string=image.repository={repository}", f"--set-string=image.tag={tag}"),
        "--set=restricted=true",
        # Away from spot nodes, which tests take away.
        '--set-json=nodeSelector={"karpenter.sh/capacity-type": "on-demand"}',
        *changes,
    )
    run_helm(kind, "upgrade", RELEASE, str(CHART), "--install", "--wait", "--timeout=180s", *values)


def uninstall(kind: Kind) -> None:
    """Uninstall the release; its hook stops the operator and lets go of all pods."""
    run_helm(kind, "uninstall", RELEASE, "--wait", "--timeout=180s")


def run_helm(kind: Kind, *arguments: str) -> str:
    """What Helm says; raises `HelmError`."""
    where = (f"--kubeconfig={KUBECONFIG}", f"--namespace={SYSTEM}")
    return helm.run(helm.ensure(kind.progress), *arguments, *where)
