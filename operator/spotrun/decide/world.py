"""The world: which workers train together, and how they come to.

A world without members stands for "nobody trains": its number is kept, for generations only grow,
and so is who holds the newest state (`trained`). While `switch` is false the members of the last
world train on, and the newcomers get warm.
"""

from spotrun.api.status import How, TrainingJobStatus
from spotrun.decide.arrival import arrival_again_seconds, is_overdue, leave_out_the_late
from spotrun.decide.crew import counted_on, failed, gone, relied_on, some_unheard, training
from spotrun.decide.fates import NEW_LEADER_SECONDS
from spotrun.decide.growth import follow_wishes, growth_again_seconds, leave_again_seconds
from spotrun.decide.loss import after_failure, after_loss, loss_again_seconds
from spotrun.decide.publish import publish
from spotrun.decide.start import start, start_again_seconds
from spotrun.decide.view import View, holds_back

__all__ = ["again_seconds", "counted_on", "next_world", "training"]


def next_world(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Form, shrink, grow or keep the world."""
    if holds_back(status):
        return _disband(view, status)
    if not training(status):
        return start(view, status)
    if gone(view, status):
        return after_loss(view, status)
    if failed(view, status):
        return after_failure(view, status)
    if is_overdue(view, status):
        return leave_out_the_late(view, status)
    return follow_wishes(view, status)


def again_seconds(view: View, status: TrainingJobStatus) -> float | None:
    """When the world may change though nothing happens."""
    if holds_back(status):
        return None
    waits: list[float | None] = [leave_again_seconds(view)]
    if some_unheard(view, view.alive):
        waits.append(NEW_LEADER_SECONDS - view.job.leading_seconds)
    if not training(status):
        waits.append(start_again_seconds(view))
    elif gone(view, status):
        waits.append(loss_again_seconds(view, status))
    else:
        waits += [arrival_again_seconds(view, status), growth_again_seconds(view, status)]
    return min((wait for wait in waits if wait is not None and wait > 0), default=None)


def _disband(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Until its workers are gone a suspended job's world stands, and takes orders."""
    world = status.world
    if world is None or not relied_on(status).isdisjoint(view.alive_serials):
        return status
    if not world.members and not world.trained:
        return status
    return publish(view, status, [], How.RESTART, "no workers are wanted", switch=False)
