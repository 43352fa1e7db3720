"""Progress and checkpoints, as the members of the present world report them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from spotrun.api.field_types.amounts import Percent
from spotrun.policies.policy import Policy
from spotrun.state.conditions import record
from spotrun.state.job_state import NO_WORLD, JobState
from spotrun.state.stored.training import (
    NO_PROGRESS,
    AcknowledgedCheckpoint,
    LocalCheckpoint,
    Progress,
)
from spotrun.state.view import View
from spotrun.state.world_members import training, world_number
from spotrun.wire import Checkpoint, Report, step_of
from spotrun.wire import Progress as Reported

_FASTEST = 1e9  # samples per second; a higher rate is no measurement


def follow(view: View, status: JobState) -> JobState:
    """Take over the newest progress, acknowledge the newest checkpoint, and record a found one."""
    members = set(training(status))
    reports = [w.agent.report for w in view.job.workers if w.agent and w.worker_id in members]
    newest = max((r.progress for r in reports if r.progress), key=lambda p: p.step, default=None)
    if newest is not None and view.job.spec.stages:
        newest = replace(newest, total=_total(view, status, newest))
    if newest is not None and not (_is_known(newest, status.progress) or _is_old(newest, status)):
        status = replace(status, progress=_progress(newest, status.progress))
    # Perhaps only the kubelet knows what a worker saved while it ended.
    ended = [w.pod.end.words for w in view.job.workers if w.pod.end and w.worker_id in members]
    names = [words.checkpoint for words in ended if words and words.checkpoint]
    reported = [report.committed for report in reports if report.committed]
    reported += [Checkpoint(name, step_of(name)) for name in names]
    saved = max(reported, key=lambda one: (one.step, one.orders or 0), default=None)
    if saved is not None and _is_newer(saved, status):
        status = replace(status, checkpoint=_acknowledged(saved, status.checkpoint, view.now))
    status = replace(status, local_checkpoint=_kept(view, status, reports))
    return _note_found(view, status, reports)


def _kept(view: View, status: JobState, reports: Sequence[Report]) -> LocalCheckpoint | None:
    """Return the newest step in the local tier, as the workers of the newest world report it.

    Workers of an older world have parts of another state. The folders are deleted with their pods.
    """
    told = [report.progress for report in reports if report.progress]
    if not view.alive_worker_ids:
        return None
    if not told:
        return status.local_checkpoint
    newest = max(one.world_number for one in told)
    names = [one.kept for one in told if one.kept and one.world_number == newest]
    step = max(map(step_of, names), default=None)
    known = status.local_checkpoint
    if step is None or (known is not None and known.step == step):
        return known if step is not None else None
    return LocalCheckpoint(step=step, time=view.now)


def _total(view: View, status: JobState, newest: Reported) -> int | None:
    """Return the steps of all stages together: a trainer knows only its own stage."""
    stages, world = view.job.spec.stages or (), status.world
    last = stages[-1].until_step
    return newest.total if last is None and world.stage + 1 >= len(stages) else last


def _note_found(view: View, status: JobState, reports: Sequence[Report]) -> JobState:
    """Note the checkpoint of an earlier job from which a world continues without being told to.

    From now on the operator acts as if it had ordered this: the steps before it are not this job's
    work.
    """
    world, saved = status.world, status.checkpoint
    if world is NO_WORLD or world.restore is not None or saved is None:
        return status
    reported = (report.progress for report in reports)
    found = {one.restored for one in reported if one and one.world_number == world.number}
    if saved.name not in found:
        return status
    status = replace(status, world=replace(world, restore=saved.name))
    why = f"training continues from {saved.name}, which was in the job's folder"
    return record(view, status, "Restore", why, {"step": str(saved.step)})


def _is_newer(saved: Checkpoint, status: JobState) -> bool:
    known = status.checkpoint
    if known is None or saved.step > known.step:
        return True
    # Workers learn of an order one after the other: the last one to report may know more.
    return saved.name == known.name and (saved.orders or 0) > (known.orders or 0)


def _acknowledged(
    saved: Checkpoint, known: AcknowledgedCheckpoint | None, now: datetime
) -> AcknowledgedCheckpoint:
    time = known.time if known is not None and known.name == saved.name else now
    return AcknowledgedCheckpoint(name=saved.name, step=saved.step, time=time, orders=saved.orders)


def _is_known(reported: Reported, known: Progress) -> bool:
    """The rate alone is not new: it is read again with the next step.

    Nor is a report of a process that has just started and has restored nothing yet.
    """
    if known == NO_PROGRESS:
        return False
    if not reported.step:
        return True
    return (known.step, known.total_steps) == (reported.step, reported.total or known.total_steps)


def _is_old(reported: Reported, status: JobState) -> bool:
    """Whether it is of an earlier world, and behind what is known.

    A worker that is lost may have reported later than the others. What these last said then does
    not mean that steps are done again: their next reports, of the present world, show that.
    """
    is_of_earlier = 0 < reported.world_number < world_number(status)
    return is_of_earlier and reported.step < (status.progress.step or 0)


def _progress(reported: Reported, known: Progress) -> Progress:
    total = reported.total or known.total_steps
    done = None
    if total:
        done = Percent(f"{min(100 * reported.step // total, 100)}%")
    rate = None
    if reported.step_seconds and reported.step and reported.samples:
        per_second = reported.samples / reported.step / reported.step_seconds
        rate = Decimal(f"{min(per_second, _FASTEST):.3f}")
    return Progress(
        step=reported.step,
        total_steps=total,
        percent=done,
        samples_per_second=rate,
        eta=known.eta,
    )


PROGRESS = Policy(follow)
