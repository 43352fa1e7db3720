"""Publishing a world: its number, its members by rank, its store, and its state holders."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from spotrun.api.status import Entry
from spotrun.state.conditions import record
from spotrun.state.job_state import JobState, World
from spotrun.state.replicas import in_rank_order
from spotrun.state.snapshot import Worker
from spotrun.state.view import PATIENCE, View
from spotrun.state.world_members import (
    breaks_in_a_row,
    on_trial,
    state_holders,
    training,
    world_number,
)

_USED_STORES = 16


def publish(
    view: View,
    status: JobState,
    chosen: Sequence[Worker],
    entry: Entry,
    why: str,
    *,
    is_active: bool,
    late: Sequence[Worker] = (),
    is_planned: bool = False,
    breaks: int = 0,
) -> JobState:
    """Make the next world; without members it means that no worker trains."""
    old = status.world
    members = tuple(worker.worker_id for worker in in_rank_order(chosen, view.job.spec.workers))
    store = spare_store(view, status, members[:1])
    # While a world is prepared, the whole last one continues to train. Otherwise only workers with
    # the state count, even if too few are left to train: they still hold the newest state.
    is_prepared = bool(members) and not is_active
    # A late worker that is left out falls behind; one that must enter this world does not.
    behind = {worker.worker_id for worker in late}.difference(members)
    holders = (w.worker_id for w in state_holders(view, status) if w.worker_id not in behind)
    trained = training(status) if is_prepared else tuple(holders)
    if not is_active or set(trained).isdisjoint(members):
        entry = entry if is_prepared else Entry.RESTART  # no member has the state
    world = World(
        number=old.number + 1,
        members=members,
        is_active=is_active,
        entry=entry,
        store=store,
        state_holders=trained,
        used_stores=_spend(old, store),
        restore=status.checkpoint.name if status.checkpoint is not None else None,
        formed_at=view.now,
        training_number=world_number(status) if is_prepared else None,
        late_workers=_late(view, old, late),
        joining_workers=_joining(view, status, members),
        breaks=breaks_in_a_row(view, status) if is_prepared else breaks,
        # In process, training continues in the stage of the world before.
        stage=_stage(status) if entry is Entry.RESTART else old.stage,
        is_planned=is_planned and entry is Entry.RESTART,
    )
    numbers = {"world": str(world.number), "size": str(len(members)), "entry": entry.value}
    return record(view, replace(status, world=world), "World", why, numbers)


def fill_in(view: View, status: JobState, *, is_active: bool) -> JobState:
    """Add what was missing when the world was published: its store, and the order to enter it."""
    world = status.world
    filled = world
    if is_active and not world.is_active:
        filled = replace(world, is_active=True, formed_at=view.now, training_number=None)
        if world.entry is Entry.RESTART and status.checkpoint is not None:
            # The training workers may have saved meanwhile.
            filled = replace(filled, restore=status.checkpoint.name)
    rank0 = world.members[:1]
    is_bad = is_active and not world.is_active and not _is_at(view, world.store, rank0)
    if (world.store is None or is_bad) and (store := spare_store(view, status, rank0)):
        filled = replace(filled, store=store, used_stores=_spend(world, store))
    return status if filled is world else replace(status, world=filled)


def give_up(view: View, status: JobState, workers: Sequence[Worker]) -> JobState:
    """Have workers replaced that no world needs, by counting them as late often enough."""
    late = _late(view, status.world, [*workers] * PATIENCE)
    return replace(status, world=replace(status.world, late_workers=late))


def spare_store(view: View, status: JobState, rank0: tuple[int, ...]) -> str | None:
    """The open store of rank 0 that no world has used yet."""
    worker = view.by_worker_id.get(rank0[0]) if rank0 else None
    if worker is None or worker.agent is None or worker.pod.address is None:
        return None
    port = worker.agent.report.store_port
    if port is None:
        return None
    address = worker.pod.address
    store = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    return None if store in status.world.used_stores else store


def _is_at(view: View, store: str | None, rank0: tuple[int, ...]) -> bool:
    """Whether a store is at rank 0's address: its pod may have been created again."""
    worker = view.by_worker_id.get(rank0[0]) if rank0 else None
    address = worker.pod.address if worker is not None else None
    return store is not None and address is not None and address in store


def _stage(status: JobState) -> int:
    return status.stage.index if status.stage is not None else 0


def _spend(world: World, store: str | None) -> tuple[str, ...]:
    return (*world.used_stores, *([store] if store else ()))[-_USED_STORES:]


def _joining(view: View, status: JobState, members: Sequence[int]) -> tuple[int, ...]:
    """Return the members that did not train before; none if no worker trained before."""
    before = set(training(status)) - on_trial(view, status)
    new = tuple(sorted(set(members) - before))
    return new if before else ()


def _late(view: View, old: World, late: Sequence[Worker]) -> tuple[int, ...]:
    """List each worker that is still alive once for each time that it was late."""
    times = Counter(old.late_workers)
    times.update(worker.worker_id for worker in late)
    still = sorted(worker_id for worker_id in times if worker_id in view.alive_worker_ids)
    return tuple(worker_id for worker_id in still for _ in range(min(times[worker_id], PATIENCE)))
