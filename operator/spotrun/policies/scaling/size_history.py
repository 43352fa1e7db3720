"""The memory of sizes, in status: how long a step took at each, and which brought too little."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from spotrun.policies.scaling.benefit import Curve, Point, Rounds
from spotrun.policies.scaling.facts import SizingFacts, StepTimes
from spotrun.state.stored.scaling import Measured, Rejected, ScalingState

KEPT_FOR = timedelta(hours=6)
"""A measurement counts for this long unless it is confirmed: within half a day a job's nodes and
their neighbours change."""
OTHER_JOB = 0.15
"""If a step at the same size becomes longer or shorter by this share, the job has changed: what
other sizes brought no longer counts."""
_NEWS = 0.05
_REFRESHED_AFTER = timedelta(hours=1)
_MOST_KEPT = 16


def remember(memory: ScalingState, facts: SizingFacts, now: datetime) -> ScalingState:
    """Add the new measurements, and forget those that are too old to trust."""
    fresh = [one for one in memory.measured if _is_fresh(one, facts, now)]
    rejected = tuple(one for one in memory.rejected if one.until > now)
    if facts.step is not None:
        known = next((one for one in fresh if one.workers == facts.step.workers), None)
        if known is not None and _differs(known, facts.step) > OTHER_JOB:
            fresh, rejected, known = [], (), None
        is_old = known is not None and now - known.time >= _REFRESHED_AFTER
        if is_old:
            # The job has not changed since, so its measurements at other sizes are still valid.
            fresh = [replace(one, time=now) for one in fresh]
        if known is None or is_old or _is_news(known, facts.step):
            fresh = [one for one in fresh if one.workers != facts.step.workers]
            fresh.append(_measured(facts.step, facts.accelerator, now))
    kept = tuple(sorted(_newest(fresh), key=lambda one: one.workers))
    return replace(memory, measured=kept, rejected=rejected, efficiency=_shown(kept))


def curve(memory: ScalingState, facts: SizingFacts) -> Curve | None:
    """Return what is known about sizes; None before anything was measured."""
    if not memory.measured:
        return None
    # Points whose parts are known and points whose parts are unknown cannot share a line.
    is_split = all(one.compute is not None for one in memory.measured)
    points = tuple(_point(one, is_split=is_split) for one in memory.measured)
    return Curve(points, Rounds(facts.microbatches, facts.processes))


def reject(
    memory: ScalingState, workers: int, efficiency: float | None, until: datetime
) -> ScalingState:
    """Note that this many workers brought too little; the later time for a retry counts."""
    share = None if efficiency is None else Decimal(f"{min(max(efficiency, 0.0), 1e6):.2f}")
    others = [known for known in memory.rejected if known.workers < workers]
    same = [known.until for known in memory.rejected if known.workers == workers]
    one = Rejected(workers=workers, until=max((until, *same)), efficiency=share)
    return replace(memory, rejected=(*others, one)[-_MOST_KEPT:])


def rejected_from(memory: ScalingState) -> Rejected | None:
    """Return the smallest size that brought too little."""
    return min(memory.rejected, key=lambda one: one.workers, default=None)


def _is_fresh(one: Measured, facts: SizingFacts, now: datetime) -> bool:
    is_same = not facts.accelerator or one.accelerator == facts.accelerator
    return is_same and now - one.time < KEPT_FOR


def _is_news(known: Measured, step: StepTimes) -> bool:
    """Whether the step's length or its parts changed: the parts change first if the job changes."""
    before, now = known.compute, step.compute
    if before is None or now is None:
        return (before is None) is not (now is None) or _differs(known, step) > _NEWS
    return abs(float(before) - now) > _NEWS or _differs(known, step) > _NEWS


def _differs(known: Measured, step: StepTimes) -> float:
    before = float(known.step_seconds)
    return max(step.seconds / before, before / step.seconds) - 1


def _newest(measured: Sequence[Measured]) -> Sequence[Measured]:
    return sorted(measured, key=lambda one: one.time)[-_MOST_KEPT:]


def _measured(step: StepTimes, accelerator: str, now: datetime) -> Measured:
    return Measured(
        workers=step.workers,
        step_seconds=Decimal(f"{step.seconds:.9f}"),
        samples_per_second=Decimal(f"{min(step.samples_per_second, 1e11):.3f}"),
        compute=_share(step.compute),
        data=_share(step.data),
        accelerator=accelerator,
        time=now,
    )


def _share(share: float | None) -> Decimal | None:
    return None if share is None else Decimal(f"{share:.4f}")


def _point(one: Measured, *, is_split: bool) -> Point:
    seconds = float(one.step_seconds)
    if not is_split or one.compute is None:
        return Point(one.workers, seconds)
    data = float(one.data) if one.data is not None else None
    return Point(one.workers, seconds, float(one.compute), data)


def _shown(measured: Sequence[Measured]) -> Mapping[str, Decimal]:
    """Return the throughput per worker, relative to that at the smallest size."""
    if not measured:
        return {}
    first = measured[0]
    whole = float(first.step_seconds) * first.workers
    shares = {m.workers: whole / (float(m.step_seconds) * m.workers) for m in measured}
    return {str(size): Decimal(f"{min(share, 1e6):.2f}") for size, share in shares.items()}
