"""What a decision changes, in lines for the log."""

from collections.abc import Iterator

from spotrun.api.status import TrainingJobStatus, World
from spotrun.api.values import Serials
from spotrun.decide.actions import Create, Decision, DeleteJob, Remove, Resize, Withdraw


def entries(before: TrainingJobStatus, decision: Decision) -> Iterator[str]:
    """Nothing where nothing changes: refreshed numbers, and releases of pods, are no news."""
    after = decision.status
    if (before.phase, before.reason) != (after.phase, after.reason):
        yield f"{after.phase}: {after.message or after.reason or 'no reason given'}"
    new, old = after.world, before.world
    if new is not None and (old is None or _told(old) != _told(new)):
        members = f"workers {new.members}" if new.members else "nobody"
        yield f"world {new.generation}: {members}{'' if new.switch else ', being prepared'}"
    created = [action.serial for action in decision.actions if isinstance(action, Create)]
    if created:
        yield f"create workers {Serials.of(tuple(sorted(created)))}"
    for action in decision.actions:
        if isinstance(action, Remove):
            yield f"remove worker {action.serial}: {action.why}"
        elif isinstance(action, Withdraw):
            yield f"take worker {action.serial} back: {action.why}"
        elif isinstance(action, Resize):
            yield f"ask for {action.replicas} workers: {action.why}"
        elif isinstance(action, DeleteJob):
            yield f"delete the job: {action.why}"


def _told(world: World) -> tuple[int, bool]:
    return world.generation, world.switch
