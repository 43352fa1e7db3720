"""What is remembered of sizes, in status: what a step took at each, and which were in vain."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.text_values import Time
from spotrun.api.scaling import Measured, Rejected, ScalingStatus
from spotrun.policies.scaling.benefit import Curve, Point, Rounds
from spotrun.policies.scaling.facts import SizingFacts, StepTimes

KEPT_FOR = timedelta(hours=6)
"""Unless it is confirmed: within half a day a job's nodes and their neighbours change."""
OTHER_JOB = 0.15
"""A step at the same size that takes longer or shorter by this part is that of another job: what
other sizes brought says nothing any more."""
_NEWS = 0.05
_REFRESHED_AFTER = timedelta(hours=1)
_MOST_KEPT = 16


def remember(memory: ScalingStatus, facts: SizingFacts, now: datetime) -> ScalingStatus:
    """Take in what was measured, and forget what is too old to believe."""
    fresh = [one for one in memory.measured or () if _is_fresh(one, facts, now)]
    rejected = tuple(one for one in memory.rejected or () if one.until.datetime > now)
    if facts.step is not None:
        known = next((one for one in fresh if one.workers == facts.step.workers), None)
        if known is not None and _differs(known, facts.step) > OTHER_JOB:
            fresh, rejected, known = [], (), None
        is_old = known is not None and now - known.time.datetime >= _REFRESHED_AFTER
        if is_old:
            # The job is the same as then, so what it did at other sizes is as true as it was.
            fresh = [one.model_copy(update={"time": Time.of(now)}) for one in fresh]
        if known is None or is_old or _is_news(known, facts.step):
            fresh = [one for one in fresh if one.workers != facts.step.workers]
            fresh.append(_measured(facts.step, facts.accelerator, now))
    kept = tuple(sorted(_newest(fresh), key=lambda one: one.workers))
    update = {"measured": kept or None, "rejected": rejected or None, "efficiency": _shown(kept)}
    return changed(memory, **update)


def curve(memory: ScalingStatus, facts: SizingFacts) -> Curve | None:
    """What is known of sizes; None before anything was measured."""
    if not memory.measured:
        return None
    # Points whose parts are known cannot be on one line with such whose are not.
    is_split = all(one.compute is not None for one in memory.measured)
    points = tuple(_point(one, is_split=is_split) for one in memory.measured)
    return Curve(points, Rounds(facts.microbatches, facts.processes))


def reject(
    memory: ScalingStatus, workers: int, efficiency: float | None, until: datetime
) -> ScalingStatus:
    """So many workers were in vain: they are not tried again until then, or as was said before."""
    share = None if efficiency is None else Amount(f"{min(max(efficiency, 0.0), 1e6):.2f}")
    others = [known for known in memory.rejected or () if known.workers < workers]
    same = (known.until for known in memory.rejected or () if known.workers == workers)
    last = max((Time.of(until), *same), key=lambda moment: moment.datetime)
    one = Rejected(workers=workers, efficiency=share, until=last)
    return changed(memory, rejected=(*others, one)[-_MOST_KEPT:])


def rejected_from(memory: ScalingStatus) -> Rejected | None:
    """The smallest size that was in vain."""
    return min(memory.rejected or (), key=lambda one: one.workers, default=None)


def changed(memory: ScalingStatus, **update: object) -> ScalingStatus:
    """The same object where nothing changes, so that nothing is written."""
    news = {name: value for name, value in update.items() if getattr(memory, name) != value}
    return memory.model_copy(update=news) if news else memory


def _is_fresh(one: Measured, facts: SizingFacts, now: datetime) -> bool:
    is_same = not facts.accelerator or (one.accelerator or "") == facts.accelerator
    return is_same and now - one.time.datetime < KEPT_FOR


def _is_news(known: Measured, step: StepTimes) -> bool:
    """Whether its length or its parts are others: these change first where the job does."""
    before, now = known.compute, step.compute
    if before is None or now is None:
        return (before is None) is not (now is None) or _differs(known, step) > _NEWS
    return abs(float(before.decimal) - now) > _NEWS or _differs(known, step) > _NEWS


def _differs(known: Measured, step: StepTimes) -> float:
    before = float(known.step_seconds.decimal)
    return max(step.seconds / before, before / step.seconds) - 1


def _newest(measured: Sequence[Measured]) -> Sequence[Measured]:
    return sorted(measured, key=lambda one: one.time.datetime)[-_MOST_KEPT:]


def _measured(step: StepTimes, accelerator: str, now: datetime) -> Measured:
    return Measured(
        workers=step.workers,
        step_seconds=Amount(f"{step.seconds:.9f}"),
        samples_per_second=Amount(f"{min(step.samples_per_second, 1e11):.3f}"),
        compute=_share(step.compute),
        data=_share(step.data),
        accelerator=accelerator or None,
        time=Time.of(now),
    )


def _share(share: float | None) -> Amount | None:
    return None if share is None else Amount(f"{share:.4f}")


def _point(one: Measured, *, is_split: bool) -> Point:
    seconds = float(one.step_seconds.decimal)
    if not is_split or one.compute is None:
        return Point(one.workers, seconds)
    data = float(one.data.decimal) if one.data is not None else None
    return Point(one.workers, seconds, float(one.compute.decimal), data)


def _shown(measured: Sequence[Measured]) -> dict[str, Amount] | None:
    """Throughput per worker, against that at the smallest size."""
    if not measured:
        return None
    first = measured[0]
    whole = float(first.step_seconds.decimal) * first.workers
    shares = {m.workers: whole / (float(m.step_seconds.decimal) * m.workers) for m in measured}
    return {str(size): Amount(f"{min(share, 1e6):.2f}") for size, share in shares.items()}
