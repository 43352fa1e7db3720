"""Probes: trials of the next larger size, to notice that an old bottleneck is gone.

At its best size a job often only computes: data arrive in time, and communication is hidden. The
job remembers from larger sizes that workers would wait there. If the storage becomes faster, no
step becomes shorter at this size, and the change would stay unnoticed. So a larger size is tried
now and then, if enough may be gained.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from math import sqrt

from spotrun.api.names import ScalingReason
from spotrun.policies.scaling.benefit import Curve
from spotrun.policies.scaling.facts import SizingFacts
from spotrun.policies.scaling.options import Options, Wish
from spotrun.policies.scaling.size_history import KEPT_FOR, OTHER_JOB, curve
from spotrun.policies.scaling.worth import Worth, horizon_seconds
from spotrun.state.stored.scaling import ScalingState

STAKE = 20.0
"""A trial must promise 20 times its price. So trials cost at most a twentieth of what they may
save, even if none of them succeeds."""
RARER = 1.25
"""Each pause between trials is 1.25 times the last: what has been true for long will probably stay
true."""
_HOUR = timedelta(hours=1)


def probe(those: Options, found: Wish, memory: ScalingState, now: datetime) -> Wish | None:
    """Return the next larger size at which waiting shows, if it is time for a trial."""
    is_settled = found.reason in (ScalingReason.BEST_SIZE, ScalingReason.NO_BENEFIT)
    if not is_settled or memory.last is None or not those.curve.is_unhindered(those.base):
        return None
    size = next((n for n in _to_be_had(those) if _shows(those.curve, n)), None)
    if size is None or (those.tried is not None and size >= those.tried):
        return None
    worth = Worth.stated(those.facts) or Worth.implied(those.facts, those.base)
    ratio = _possible_ratio(those, worth)
    hours = min((now - memory.last.time) / _HOUR, horizon_seconds(those.facts) / 3600)
    stake = (1 - ratio) * worth.per_hour(those.base) * hours
    there_and_back = 2 * those.change(worth, size).price
    if stake < STAKE * there_and_back:
        return None
    why = f"more than {those.base} workers had to wait; {size} are tried to see if they still do"
    return Wish(size, ScalingReason.PROBING, why, {"possibleCostRatio": f"{ratio:.3f}"})


def next_probe(memory: ScalingState, now: datetime) -> datetime:
    """Return the earliest moment of the next trial, if the one that begins now does not succeed."""
    assert memory.last is not None, "there is no trial before the first change"
    return now + max(RARER * (now - memory.last.time), KEPT_FOR)


def heed(memory: ScalingState, facts: SizingFacts) -> ScalingState:
    """Forget what larger sizes showed, if a trial shows that it no longer holds."""
    last, step = memory.last, facts.step
    if last is None or step is None or last.reason != ScalingReason.PROBING.value:
        return memory
    size, measured = last.after, memory.measured
    others = tuple(one for one in measured if one.workers != size)
    known = curve(replace(memory, measured=others), facts)
    if step.workers != size or known is None or not _shows(known, size):
        return memory
    if step.seconds > sqrt(known.seconds(size) * known.unhindered(size)):
        return memory
    kept = tuple(one for one in measured if one.workers < size)
    return replace(memory, measured=kept, rejected=())


def _to_be_had(those: Options) -> list[int]:
    cap, prudent = those.facts.cap, those.curve.prudent
    most = prudent if cap is None else min(prudent, cap.size)
    return [size for size in those.sizes if those.base < size <= most]


def _shows(known: Curve, size: int) -> bool:
    """Whether a step there is clearly longer because of waiting."""
    return known.seconds(size) >= known.unhindered(size) * (1 + OTHER_JOB)


def _possible_ratio(those: Options, worth: Worth) -> float:
    """Return what the same work would cost, relative to now, if no larger size had to wait."""
    curve = those.curve
    best = min(worth.per_hour(n) * curve.unhindered(n) for n in _to_be_had(those))
    return best / (worth.per_hour(those.base) * curve.seconds(those.base))
