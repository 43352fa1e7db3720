"""The operator, installed with Helm as docs/install.md tells."""

import json

from charts import helm
from charts.manifests import CHART
from tests.e2e.cluster import Cluster

SYSTEM, RELEASE = "spotrun-system", "spotrun"


def install(cluster: Cluster, image: str, *changes: str) -> None:
    """Install the chart, or upgrade what is there, and wait until its replicas are ready."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": SYSTEM, "labels": restricted},
    }
    cluster.kubectl("apply", "--filename=-", given=json.dumps(namespace))
    values = (*image_values(image), "--set=restricted=true", *cluster.operator_values, *changes)
    told = ("--install", "--wait", "--timeout=180s", *values)
    run_helm(cluster, "upgrade", RELEASE, str(CHART), *told)


def uninstall(cluster: Cluster, *options: str) -> None:
    """Uninstall the release; its hook stops the operator and lets go of all pods."""
    run_helm(cluster, "uninstall", RELEASE, "--wait", "--timeout=180s", *options)


def image_values(image: str) -> tuple[str, ...]:
    """Return the chart's values for an image; one without a tag is `latest`, as for Docker."""
    image, at, digest = image.partition("@")
    folder, slash, name = image.rpartition("/")  # a registry may have a port
    name, _, tag = name.partition(":")
    version = f"digest={digest}" if at else f"tag={tag or 'latest'}"
    repository = f"--set-string=image.repository={folder}{slash}{name}"
    return (repository, f"--set-string=image.{version}")


def run_helm(cluster: Cluster, *arguments: str) -> str:
    """Run Helm and return what it says; raises `HelmError`."""
    where = (f"--kubeconfig={cluster.kubeconfig}", f"--namespace={SYSTEM}")
    return helm.run(helm.ensure(cluster.progress), *arguments, *where)
