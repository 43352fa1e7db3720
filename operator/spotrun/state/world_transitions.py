"""Publishing a world: its number, its members by rank, its store, and who has the state."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from spotrun.api.field_types.text_values import Serials, Time
from spotrun.api.status import How, World
from spotrun.state.conditions import record
from spotrun.state.job_state import JobState
from spotrun.state.rank_order import in_rank_order
from spotrun.state.snapshot import Worker
from spotrun.state.view import PATIENCE, View
from spotrun.state.worker_ids import ordered
from spotrun.state.world_members import (
    breaks_in_a_row,
    generation,
    holders,
    on_trial,
    training,
)

_SPENT_STORES = 16


def publish(
    view: View,
    status: JobState,
    chosen: Sequence[Worker],
    how: How,
    why: str,
    *,
    switch: bool,
    late: Sequence[Worker] = (),
    is_planned: bool = False,
    breaks: int = 0,
) -> JobState:
    """Make the next world; without members it stands for "nobody trains"."""
    old = status.world
    members = tuple(worker.serial for worker in in_rank_order(chosen, view.job.spec.workers))
    store = spare_store(view, status, members[:1])
    # While a world is prepared the whole last one trains on. Else only those count who have the
    # state, also where too few are left to train: what they hold is still the newest there is.
    is_prepared = bool(members) and not switch
    # Who was late and is left out falls behind; who is told to enter this world does not.
    behind = {worker.serial for worker in late}.difference(members)
    keepers = (w.serial for w in holders(view, status) if w.serial not in behind)
    trained = training(status) if is_prepared else tuple(keepers)
    if not switch or set(trained).isdisjoint(members):
        how = how if is_prepared else How.RESTART  # nobody brings the state along
    world = World(
        generation=(old.generation if old else 0) + 1,
        members=Serials.of(members),
        switch=switch,
        how=how,
        store=store,
        trained=Serials.of(trained) if trained else None,
        spent=_spend(old, store),
        restore=status.checkpoint.name if status.checkpoint is not None else None,
        formed_at=Time.of(view.now),
        trains=generation(status) if is_prepared else None,
        late=_late(view, old, late),
        joined=_joined(view, status, members),
        breaks=(breaks_in_a_row(view, status) if is_prepared else breaks) or None,
        planned=True if is_planned and how is How.RESTART else None,
    )
    numbers = {"generation": str(world.generation), "size": str(len(members)), "how": how.value}
    return record(view, replace(status, world=world), "World", why, numbers)


def fill_in(view: View, status: JobState, *, switch: bool) -> JobState:
    """Add what was missing when the world was published: its store, and the word to enter."""
    world = status.world
    assert world is not None, "there is one to complete"
    update: dict[str, object] = {}
    if switch and not world.switch:
        update |= {"switch": True, "formed_at": Time.of(view.now), "trains": None}
        if world.how is How.RESTART and status.checkpoint is not None:
            update["restore"] = status.checkpoint.name  # those who train have saved meanwhile
    rank0 = ordered(world.members)[:1]
    is_bad = switch and not world.switch and not _is_at(view, world.store, rank0)
    if (world.store is None or is_bad) and (store := spare_store(view, status, rank0)):
        update |= {"store": store, "spent": _spend(world, store)}
    if not update:
        return status
    return replace(status, world=world.model_copy(update=update))


def give_up(view: View, status: JobState, workers: Sequence[Worker]) -> JobState:
    """Have workers replaced that no world counts on, as if they had been late that often."""
    world = status.world
    assert world is not None, "others train"
    late = _late(view, world, [*workers] * PATIENCE)
    return replace(status, world=world.model_copy(update={"late": late}))


def spare_store(view: View, status: JobState, rank0: tuple[int, ...]) -> str | None:
    """The open store of rank 0 that no world has used yet."""
    worker = view.by_serial.get(rank0[0]) if rank0 else None
    if worker is None or worker.agent is None or worker.pod.address is None:
        return None
    port = worker.agent.report.store_port
    if port is None:
        return None
    address = worker.pod.address
    store = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    spent = (status.world.spent or ()) if status.world is not None else ()
    return None if store in spent else store


def _is_at(view: View, store: str | None, rank0: tuple[int, ...]) -> bool:
    """Whether a store is where rank 0 is: its pod may have been made anew."""
    worker = view.by_serial.get(rank0[0]) if rank0 else None
    address = worker.pod.address if worker is not None else None
    return store is not None and address is not None and address in store


def _spend(world: World | None, store: str | None) -> tuple[str, ...]:
    spent = (world.spent or ()) if world is not None else ()
    return (*spent, *([store] if store else ()))[-_SPENT_STORES:]


def _joined(view: View, status: JobState, members: Sequence[int]) -> Serials | None:
    """Who did not train before; nobody where nobody did."""
    before = set(training(status)) - on_trial(view, status)
    new = tuple(sorted(set(members) - before))
    return Serials.of(new) if before and new else None


def _late(view: View, old: World | None, late: Sequence[Worker]) -> Serials | None:
    """How often each was late who is still there: all of them, however many."""
    known = ordered(old.late) if old is not None else ()
    times = Counter(known)
    times.update(worker.serial for worker in late)
    still = sorted(serial for serial in times if serial in view.alive_serials)
    named = [serial for serial in still for _ in range(min(times[serial], PATIENCE))]
    return Serials.of(named) if named else None
