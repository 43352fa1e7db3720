"""Progress and checkpoints, as the members of the present world report them."""

from spotrun.api.amounts import Amount, Percent
from spotrun.api.status import CheckpointStatus, Progress, TrainingJobStatus
from spotrun.api.values import Time
from spotrun.decide.view import View
from spotrun.decide.world import training
from spotrun.wire import Checkpoint
from spotrun.wire import Progress as Reported


def follow(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Take over the newest progress and acknowledge the newest checkpoint."""
    members = set(training(status))
    reports = [w.agent.report for w in view.job.workers if w.agent and w.serial in members]
    update: dict[str, object] = {}
    newest = max((r.progress for r in reports if r.progress), key=lambda p: p.step, default=None)
    if newest is not None:
        update["progress"] = _progress(newest)
    saved = max((r.committed for r in reports if r.committed), key=lambda c: c.step, default=None)
    if saved is not None and _is_newer(saved, status):
        update["checkpoint"] = CheckpointStatus(
            name=saved.name, step=saved.step, time=Time.of(view.now)
        )
    return status.model_copy(update=update) if update else status


def _is_newer(saved: Checkpoint, status: TrainingJobStatus) -> bool:
    return status.checkpoint is None or saved.step > status.checkpoint.step


def _progress(reported: Reported) -> Progress:
    done = None
    if reported.total:
        done = Percent(f"{min(100 * reported.step // reported.total, 100)}%")
    rate = None
    if reported.step_seconds and reported.step and reported.samples:
        rate = Amount(f"{reported.samples / reported.step / reported.step_seconds:.3f}")
    return Progress(
        step=reported.step, total_steps=reported.total, percent=done, samples_per_second=rate
    )
