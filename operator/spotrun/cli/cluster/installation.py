"""The installation in a cluster, from the chart's ConfigMap that every user may read."""

import os
from dataclasses import dataclass

from spotrun.cli.cluster.session import Cluster
from spotrun.kube.errors import Forbidden, NotFound
from spotrun.observe.kube_objects import CONFIG_MAPS, ConfigMapObject

CONFIG_MAP = "spotrun-installation"
DEFAULT_NAMESPACE = "spotrun-system"
NAMESPACE_VARIABLE = "SPOTRUN_SYSTEM_NAMESPACE"


@dataclass(frozen=True)
class Installation:
    """The parts of an installation that its users need to know."""

    version: str = ""
    trainer_image: str = ""
    watch_namespace: str = ""


def system_namespace() -> str:
    """Return the namespace in which the chart is expected."""
    return os.environ.get(NAMESPACE_VARIABLE) or DEFAULT_NAMESPACE


async def installation(cluster: Cluster) -> Installation | None:
    """Read the chart's ConfigMap; None if it does not exist, or this user may not read it."""
    try:
        found = await cluster.client.get(
            CONFIG_MAPS, CONFIG_MAP, ConfigMapObject, namespace=system_namespace()
        )
    except (NotFound, Forbidden):
        return None
    return Installation(
        version=found.data.get("version", ""),
        trainer_image=found.data.get("trainerImage", ""),
        watch_namespace=found.data.get("watchNamespace", ""),
    )
