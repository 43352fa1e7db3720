"""The world: which workers train together, and how they come to.

A world without members stands for "nobody trains": its generation is kept, for generations only
grow. While `switch` is false the members of the last world (`trained`) train on, and the newcomers
get warm.
"""

from spotrun.api.status import How, TrainingJobStatus, World
from spotrun.api.values import Serials, Time
from spotrun.decide.failures import waits_for_retry
from spotrun.decide.ledger import record
from spotrun.decide.ranks import in_rank_order
from spotrun.decide.sizes import largest, wanted
from spotrun.decide.snapshot import Worker
from spotrun.decide.view import View, holds_back

GATHER_SECONDS = 30.0
"""So long a job whose smallest world is ready waits for the rest of its gang."""
DEBOUNCE_SECONDS = 0.3
"""Losses come in groups (an event in recorded markets takes 7-11 of 16): wait for the others."""
LEAD_SECONDS = 8.0
"""A departing worker is left out so long before its node's end; some clouds give 15 s of notice."""
_SPENT_STORES = 16


def training(status: TrainingJobStatus) -> tuple[int, ...]:
    """The workers that train now, by rank."""
    world = status.world
    if world is None:
        return ()
    if world.switch:
        return world.members.numbers
    return world.trained.numbers if world.trained is not None else ()


def next_world(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Form, shrink, grow or keep the world."""
    if holds_back(status):
        return _disband(view, status)
    if not training(status):
        return _form(view, status)
    if _gone(view, status):
        return _after_loss(view, status)
    if _failed(view, status):
        return _after_failure(view, status)
    return _follow_wishes(view, status)


def again_seconds(view: View, status: TrainingJobStatus) -> float | None:
    """When the world may change though nothing happens."""
    waits: list[float] = []
    if gone := _gone(view, status):
        waits.append(DEBOUNCE_SECONDS - _seen_seconds(view, gone))
    if not training(status) and (ages := _ready_ages(view)):
        waits.append(GATHER_SECONDS - ages[0])
    waits += [
        (worker.node.leaves_at - view.now).total_seconds() - LEAD_SECONDS
        for worker in view.alive
        if worker.node is not None and worker.node.leaves_at is not None
    ]
    return min((wait for wait in waits if wait > 0), default=None)


def _form(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Start once everybody is there, or the smallest world has waited long enough for the rest."""
    if waits_for_retry(view, status):
        return status
    ready = [worker for worker in view.staying if worker.is_ready]
    workers = view.job.spec.workers
    size = largest(workers, min(len(ready), wanted(workers)))
    if not size:
        return status
    everybody = len(ready) >= wanted(workers)
    if not everybody and _ready_ages(view)[workers.min - 1] < GATHER_SECONDS:
        return status
    why = "all workers are ready" if everybody else "the rest did not come in time"
    return _publish(view, status, ready[:size], How.RESTART, why, switch=True)


def _after_loss(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Go on with the survivors, and with spares that are warm already."""
    gone = _gone(view, status)
    if _seen_seconds(view, gone) < DEBOUNCE_SECONDS:
        return status
    survivors = _members(view, status)
    spares = [w for w in view.staying if w not in survivors and w.is_ready]
    workers = view.job.spec.workers
    size = largest(workers, min(len(survivors) + len(spares), wanted(workers)))
    why = f"{len(gone)} of {len(training(status))} workers are gone"
    if not size:
        return _publish(view, status, [], How.RESTART, why, switch=False)
    how = How.ABORT if _all_in_process(survivors) else How.RESTART
    return _publish(view, status, [*survivors, *spares][:size], how, why, switch=True)


def _after_failure(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Go on without the one that failed, or else all start again after the pause."""
    failed = _failed(view, status)
    others = [worker for worker in _members(view, status) if worker not in failed]
    workers = view.job.spec.workers
    size = largest(workers, min(len(others), wanted(workers)))
    why = f"a training process of {failed[0].pod.name} failed"
    if size and _all_in_process(others):
        return _publish(view, status, others[:size], How.ABORT, why, switch=True)
    if waits_for_retry(view, status):
        return status
    return _publish(view, status, _members(view, status), How.RESTART, why, switch=True)


def _follow_wishes(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Take in newcomers, let departing and surplus workers go."""
    chosen = _choose(view, status, with_unready=True)
    if any(not w.is_ready for w in chosen) and _somebody_must_leave_now(view, status):
        chosen = _choose(view, status, with_unready=False)
    if not chosen:
        return status
    world = status.world
    assert world is not None, "somebody trains"
    newcomers = [w for w in chosen if w.serial not in training(status)]
    switch = all(worker.is_ready for worker in newcomers)
    if {w.serial for w in chosen} == set(world.members.numbers):
        return _complete(view, status, switch=switch)
    how = How.BOUNDARY if _all_in_process(_members(view, status)) else How.RESTART
    if {w.serial for w in chosen} == set(training(status)):
        why = "the newcomers are gone"  # a pending world is taken back under a new number
    else:
        why = f"{len(newcomers)} join, {len(training(status))} train, {len(chosen)} will"
    return _publish(view, status, chosen, how, why, switch=switch)


def _choose(view: View, status: TrainingJobStatus, *, with_unready: bool) -> list[Worker]:
    """Who trains keeps its place; newcomers come before workers that are about to leave."""
    members = _members(view, status)
    staying = [worker for worker in members if worker in view.staying]
    newcomers = [
        worker
        for worker in view.staying
        if worker not in members and worker.agent is not None and (with_unready or worker.is_ready)
    ]
    leaving = [w for w in members if w not in view.staying and not _leaves_now(view, w)]
    candidates = [*staying, *newcomers, *leaving]
    workers = view.job.spec.workers
    return candidates[: largest(workers, min(len(candidates), wanted(workers)))]


def _complete(view: View, status: TrainingJobStatus, *, switch: bool) -> TrainingJobStatus:
    """Fill in what was missing when the world was published: its store, and the word to enter."""
    world = status.world
    assert world is not None, "there is one to complete"
    update: dict[str, object] = {}
    if switch and not world.switch:
        update["switch"] = True
    if world.store is None and (store := _spare_store(view, status, world.members.numbers[:1])):
        update |= {"store": store, "spent": (*(world.spent or ()), store)[-_SPENT_STORES:]}
    if not update:
        return status
    return status.model_copy(update={"world": world.model_copy(update=update)})


def _publish(
    view: View,
    status: TrainingJobStatus,
    chosen: list[Worker],
    how: How,
    why: str,
    *,
    switch: bool,
) -> TrainingJobStatus:
    old = status.world
    members = tuple(worker.serial for worker in in_rank_order(chosen))
    store = _spare_store(view, status, members[:1])
    spent = (*((old.spent or ()) if old else ()), *([store] if store else []))
    # Who trains has the state; after a loss that leaves too few, nobody trains, but what the
    # survivors hold is still the newest there is.
    trained = tuple(n for n in training(status) if n in view.alive_serials)
    world = World(
        generation=(old.generation if old else 0) + 1,
        members=Serials.of(members),
        switch=switch,
        how=how,
        store=store,
        trained=Serials.of(trained) if members else None,
        spent=spent[-_SPENT_STORES:],
        restore=status.checkpoint.name if status.checkpoint is not None else None,
        formed_at=Time.of(view.now),
    )
    numbers = {"generation": str(world.generation), "size": str(len(members)), "how": how.value}
    return record(view, status.model_copy(update={"world": world}), "World", why, numbers)


def _disband(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    world = status.world
    if world is None or not world.members or any(n in view.alive_serials for n in training(status)):
        return status  # until they are gone they are a world that takes orders
    return _publish(view, status, [], How.RESTART, "no workers are wanted", switch=False)


def _gone(view: View, status: TrainingJobStatus) -> tuple[int, ...]:
    return tuple(n for n in training(status) if n not in view.alive_serials)


def _members(view: View, status: TrainingJobStatus) -> list[Worker]:
    return [w for n in training(status) for w in view.alive if w.serial == n]


def _seen_seconds(view: View, serials: tuple[int, ...]) -> float:
    """How long ago the first of these losses was seen."""
    return max(view.job.lost_seconds.get(serial, 0.0) for serial in serials)


def _ready_ages(view: View) -> list[float]:
    ages = [w.agent.ready_seconds or 0.0 for w in view.staying if w.agent and w.is_ready]
    return sorted(ages, reverse=True)


def _failed(view: View, status: TrainingJobStatus) -> list[Worker]:
    """The members whose processes failed in the present world."""
    generation = status.world.generation if status.world is not None else 0
    return [
        worker
        for worker in _members(view, status)
        if worker.agent is not None
        and worker.agent.report.failed is not None
        and worker.agent.report.failed.generation == generation
    ]


def _all_in_process(workers: list[Worker]) -> bool:
    return all(w.agent is not None and w.agent.report.in_process for w in workers)


def _somebody_must_leave_now(view: View, status: TrainingJobStatus) -> bool:
    return any(_leaves_now(view, worker) for worker in _members(view, status))


def _leaves_now(view: View, worker: Worker) -> bool:
    leaves_at = worker.node.leaves_at if worker.node is not None else None
    return leaves_at is not None and (leaves_at - view.now).total_seconds() <= LEAD_SECONDS


def _spare_store(view: View, status: TrainingJobStatus, rank0: tuple[int, ...]) -> str | None:
    """The open store of rank 0 that no world has used yet."""
    worker = view.job.worker(rank0[0]) if rank0 else None
    if worker is None or worker.agent is None or worker.agent.report.store_port is None:
        return None
    store = f"{worker.pod.address}:{worker.agent.report.store_port}"
    spent = (status.world.spent or ()) if status.world is not None else ()
    return None if store in spent else store
