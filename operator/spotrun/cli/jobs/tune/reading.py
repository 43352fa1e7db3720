"""A search (TuningJob), read from a cluster."""

from typing import Any

from spotrun.api.manifest import load
from spotrun.api.tuning.tuningjob import TuningJob
from spotrun.cli.cluster.session import Cluster
from spotrun.cli.cluster.troubles import NoSuchJob, Unreadable, is_missing
from spotrun.kube.errors import NotFound
from spotrun.observe.kube_objects import TUNING_JOBS


async def read_search(cluster: Cluster, name: str) -> dict[str, Any]:
    """Read the manifest of a search; raises NoSuchJob."""
    try:
        return await cluster.client.get(
            TUNING_JOBS, name, dict[str, Any], namespace=cluster.namespace
        )
    except NotFound as error:
        if not is_missing(error, name):
            raise
        raise NoSuchJob(
            f"there is no TuningJob {name!r} in namespace {cluster.namespace!r}: "
            "`kubectl get tuningjobs -A` shows all"
        ) from None


def loaded(manifest: dict[str, Any]) -> TuningJob:
    """Return what was read from a cluster; raises Unreadable for one of another version."""
    try:
        return search_of(manifest)
    except ValueError as error:
        raise Unreadable(str(error)) from error


def search_of(found: object) -> TuningJob:
    """Return a search; raises ValueError if this is none."""
    search = load(found) if isinstance(found, dict) else None
    if not isinstance(search, TuningJob):
        raise ValueError("this is no TuningJob: give one with -f, or its NAME")  # noqa: TRY004
    return search
