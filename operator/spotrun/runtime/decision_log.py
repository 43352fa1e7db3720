"""Log lines about a decision: the changes that it makes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from spotrun.api.field_types.text_values import WorkerIds
from spotrun.state.actions import (
    Action,
    AskQueue,
    Create,
    Decision,
    DeleteJob,
    Remove,
    Resize,
    Withdraw,
)
from spotrun.state.job_state import JobState, World


def entries(before: JobState, decision: Decision) -> Iterator[str]:
    """Yield the log lines of a decision; refreshed numbers and released pods get none."""
    after = decision.status
    if (before.phase, before.reason) != (after.phase, after.reason):
        yield f"{after.phase}: {after.message or after.reason or 'no reason given'}"
    new, old = after.world, before.world
    if _published_world(old) != _published_world(new):
        members = f"workers {WorkerIds.of(new.members)}" if new.members else "no workers"
        yield f"world {new.number}: {members}{'' if new.is_active else ', being prepared'}"
    created = [action.worker_id for action in decision.actions if isinstance(action, Create)]
    if created:
        yield f"create {_workers(created)}"
    for why, worker_ids in _by_reason(decision.actions, Remove).items():
        yield f"remove {_workers(worker_ids)}: {why}"
    for why, worker_ids in _by_reason(decision.actions, Withdraw).items():
        yield f"withdraw {_workers(worker_ids)}: {why}"
    for action in decision.actions:
        if isinstance(action, Resize):
            yield f"ask for {action.replicas} workers: {action.why}"
        elif isinstance(action, DeleteJob):
            yield f"delete the job: {action.why}"
        elif isinstance(action, AskQueue):
            yield f"ask the queue for {action.count} workers"


def _by_reason(
    actions: Iterable[Action], kind: type[Remove] | type[Withdraw]
) -> Mapping[str, list[int]]:
    """Merge actions with the same reason: a gang of a thousand workers then has one line."""
    worker_ids = defaultdict[str, list[int]](list)
    for action in actions:
        if isinstance(action, kind):
            worker_ids[action.why].append(action.worker_id)
    return worker_ids


def _workers(worker_ids: list[int]) -> str:
    return f"worker{'s' if len(worker_ids) > 1 else ''} {WorkerIds.of(tuple(sorted(worker_ids)))}"


def _published_world(world: World) -> tuple[int, bool]:
    return world.number, world.is_active
