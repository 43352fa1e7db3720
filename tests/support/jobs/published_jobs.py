"""Jobs as they are published to agents, made in one line."""

from spotrun.agents.answers import Peer, Published
from spotrun.agents.long_poll import WorkerKey
from spotrun.api.field_types.text_values import Time, WorkerIds
from spotrun.api.names import Phase
from spotrun.api.status import Entry
from spotrun.state.job_state import NO_ORDERS, NO_WORLD, JobState, Orders, World
from spotrun.state.stored.failures import Restarts, TriedSizes
from spotrun.state.stored.training import AcknowledgedCheckpoint

KEY = b"the cluster's key"
_MOMENT = Time("2026-03-01T08:00:00Z")
UID = "11111111-2222-3333-4444-555555555555"


def worker(worker_id: int, *, job: str = "job", namespace: str = "team") -> WorkerKey:
    return WorkerKey(namespace, job, pod(worker_id, job))


def pod(worker_id: int, job: str = "job") -> str:
    return f"{job}-abcde-{worker_id}"


def peer(worker_id: int, *, job: str = "job", address: str | None = "") -> Peer:
    return Peer(
        pod(worker_id, job),
        f"pod-uid-{worker_id}",
        f"10.0.0.{worker_id}" if address == "" else address,
    )


def world(
    members: str,
    *,
    world_number: int = 1,
    is_active: bool = True,
    state_holders: str = "",
    entry: Entry = Entry.ABORT,
    store: str | None = "10.0.0.0:29400",
    restore: str | None = None,
    late_workers: str = "",
) -> World:
    return World(
        number=world_number,
        members=WorkerIds(members).numbers,
        is_active=is_active,
        entry=entry,
        store=store,
        state_holders=WorkerIds(state_holders).numbers,
        restore=restore,
        late_workers=WorkerIds(late_workers).numbers,
    )


def job(
    placed: World = NO_WORLD,
    *,
    name: str = "job",
    namespace: str = "team",
    phase: Phase | None = Phase.RUNNING,
    pods: int | dict[int, Peer] = 4,
    processes: int = 1,
    uid: str = UID,
    ordered: int = 0,  # checkpoints
    checkpoint: str | None = None,
    trained: tuple[int, ...] = (),  # sizes, the newest last
) -> Published:
    peers = pods if isinstance(pods, dict) else {n: peer(n, job=name) for n in range(pods)}
    orders = Orders(ordered, _MOMENT.datetime) if ordered else NO_ORDERS
    saved = None
    if checkpoint is not None:
        saved = AcknowledgedCheckpoint(name=checkpoint, step=1, time=_MOMENT.datetime)
    known = Restarts(sizes=TriedSizes(trained))
    status = JobState(phase=phase, world=placed, orders=orders, checkpoint=saved, restarts=known)
    return Published(namespace, name, uid, status, peers, processes)
