"""The workers of a job, put together from its pods, its world, its ledger and the pools."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from spotrun.api.field_types.intervals import read_intervals
from spotrun.api.names import (
    INSTANCE_TYPE_LABELS,
    LABEL_CAPACITY,
    LABEL_WORKER_ID,
    ZONE_LABELS,
)
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.pool_model import Pool
from spotrun.observe.kube_objects import NodeObject, PodObject


@dataclass(frozen=True)
class Worker:
    """One worker."""

    worker_id: int
    pod: str
    rank: int | None  # in the world that trains; None outside of it
    state: str
    node: str
    zone: str
    machine: str
    capacity: str
    usd_per_hour: str | None
    created: str | None


@dataclass(frozen=True)
class Place:
    """The place and the kind of a node, by its own labels."""

    zone: str = "-"
    machine: str = "-"


NOWHERE = Place()


def place_of(node: NodeObject) -> Place:
    """Read the labels of a node."""

    def label(names: Sequence[str]) -> str:
        return next(
            (node.metadata.labels[one] for one in names if one in node.metadata.labels), "-"
        )

    return Place(label(ZONE_LABELS), label(INSTANCE_TYPE_LABELS))


def workers_of(
    job: Job,
    pods: Sequence[PodObject],
    pools: Sequence[Pool],
    places: Mapping[str, Place] = MappingProxyType({}),
) -> tuple[Worker, ...]:
    """Return the workers, by rank; those outside the world come last."""
    ranks = {number: rank for rank, number in enumerate(members_of(job))}
    prices = {
        number: (rate.usd_per_hour, rate.pool)
        for rate in job.status.accumulators.rates
        for number in numbers(rate.workers)
    }
    by_name = {pool.metadata.name: pool for pool in pools}
    found = [
        _worker(pod, ranks, prices, by_name, places.get(pod.spec.node_name or "", NOWHERE))
        for pod in pods
    ]
    return tuple(sorted(found, key=lambda one: (one.rank is None, one.rank or 0, one.worker_id)))


def members_of(job: Job) -> tuple[int, ...]:
    """Return the ids of the workers of the world, in rank order."""
    return tuple(numbers(job.status.world.members)) if job.status.world else ()


def numbers(text: str) -> Iterable[int]:
    """Yield the worker ids of a list of the API, in its order."""
    for first, last in read_intervals(text):
        yield from range(first, last + 1)


def worker_id_of(pod: PodObject) -> int:
    """Return the id of a worker; -1 if its label was removed."""
    label = pod.metadata.labels.get(LABEL_WORKER_ID, "")
    return int(label) if label.isdecimal() else -1


def state_of(pod: PodObject) -> str:
    """Return the state of a pod in a word or two, as `kubectl get pods` has it."""
    if pod.metadata.deletion_timestamp:
        return "Leaving"
    status = pod.status
    for container in (*status.init_container_statuses, *status.container_statuses):
        if container.state.waiting and container.state.waiting.reason not in (
            "ContainerCreating",
            "PodInitializing",
            "",
        ):
            return container.state.waiting.reason
        if container.state.terminated and container.state.terminated.exit_code:
            return f"Exit {container.state.terminated.exit_code}"
    if status.phase == "Pending":
        return "Starting" if pod.spec.node_name else "NoNode"
    return status.phase


def _worker(
    pod: PodObject,
    ranks: dict[int, int],
    prices: dict[int, tuple[str, str | None]],
    pools: dict[str, Pool],
    place: Place,
) -> Worker:
    number = worker_id_of(pod)
    price, pool_name = prices.get(number, (None, None))
    asked = pod.metadata.annotations.pools.split(",") if pod.metadata.annotations.pools else []
    pool = pools.get(pool_name or (asked[0] if len(asked) == 1 else ""))
    return Worker(
        worker_id=number,
        pod=pod.metadata.name,
        rank=ranks.get(number),
        state=state_of(pod),
        node=pod.spec.node_name or "-",
        zone=_first(
            place.zone, pod.metadata.annotations.zone, _only(pool.spec.zones if pool else ())
        ),
        machine=_first(place.machine, _only(pool.spec.instance_types if pool else ())),
        capacity=pod.metadata.labels.get(LABEL_CAPACITY, "-"),
        usd_per_hour=price,
        created=pod.metadata.creation_timestamp,
    )


def _first(*names: str) -> str:
    return next((name for name in names if name not in ("", "-")), "-")


def _only(names: Sequence[str]) -> str:
    """Return the only name; of several it is not known which one applies."""
    return names[0] if len(names) == 1 else "-"
