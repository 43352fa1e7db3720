"""The dealing of a step's microbatches to copies of the model by their measured speeds.

All processes compute the same numbers from the same measurements, which they get in one sum with
the votes. So no sample is left out or used twice, and no extra message is sent.
"""

import heapq
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from statistics import median
from typing import Literal, get_args

from spotrun_trainer.data.order.sharding import NOBODY, deal
from spotrun_trainer.telemetry.console import say
from spotrun_trainer.telemetry.meter import NO_TRACE
from spotrun_trainer.telemetry.trace import Trace

Balance = Literal["even", "measured"]
GAIN = 0.05
"""The part of a step's time that a change must save. While each measurement is within 2.5 % of the
one used for the last decision nothing changes: that decision is within 5 % of the best one."""
EVERY_COMMITS = 5
"""The commits from one decision to the next: half a window of measurements."""
MOST_SAID = 16
"""Up to this many copies, a log line has the number of each."""


def check_balance(balance: str) -> None:
    """Raise ValueError for an unknown value."""
    if balance not in get_args(Balance):
        raise ValueError(f'balance={balance!r}: give "even" or "measured"')


def fastest(
    seconds: Sequence[float], microbatches: int, least: Sequence[int], most: Sequence[int]
) -> tuple[int, ...]:
    """Return the numbers of microbatches, in these bounds, with which all finish soonest.

    `seconds` has each copy's time for one. The next microbatch goes to the copy that would finish
    it first, and among equal copies to the first one: so equal copies get the same as with `deal`.
    """
    numbers = list(least)
    done = [
        ((number + 1) * each, copy)
        for copy, (number, each) in enumerate(zip(numbers, seconds, strict=True))
        if number < most[copy]
    ]
    heapq.heapify(done)
    for _ in range(microbatches - sum(numbers)):
        _, copy = heapq.heappop(done)
        numbers[copy] += 1
        if numbers[copy] < most[copy]:
            heapq.heappush(done, ((numbers[copy] + 1) * seconds[copy], copy))
    return tuple(numbers)


def slowest(numbers: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the seconds after which all copies have computed their microbatches."""
    return max(number * each for number, each in zip(numbers, seconds, strict=True))


def deal_anew(present: Sequence[int], seconds: Sequence[float]) -> tuple[int, ...]:
    """Return the numbers of microbatches for the next steps; the present ones if no change pays.

    A copy whose time is not known, which is 0, counts as a typical one. No number more than doubles
    or halves, so one wrong measurement does little harm; and each copy keeps at least one
    microbatch, or it would never be measured again.
    """
    known = [each for each in seconds if each > 0]
    if not known or not all(present):
        return tuple(present)
    typical = median(known)
    seconds = [each if each > 0 else typical for each in seconds]
    least = [(number + 1) // 2 for number in present]
    best = fastest(seconds, sum(present), least, [2 * number for number in present])
    pays = slowest(best, seconds) < (1 - GAIN) * slowest(present, seconds)
    return best if pays else tuple(present)


class Dealing:
    """The numbers of microbatches that the copies of the model get in the next steps."""

    def __init__(self, trace: Trace = NO_TRACE) -> None:
        self._trace = trace
        self._numbers: tuple[int, ...] = ()  # for each part of a copy, by copy; empty: deal evenly
        self._copies = 1
        self._is_logged = False
        self._microbatches = 0  # for each part of all copies together
        self._step = 0
        self._commits = 0  # of this world

    def enter(self, copies: int, *, is_logged: bool) -> None:
        """Enter another world, whose processes do not know each other's speeds: deal evenly."""
        self._copies, self._is_logged = copies, is_logged
        self._numbers, self._commits = (), 0

    def of_step(
        self, microbatches: int, idle: AbstractSet[int] = NOBODY, *, number: int = 1
    ) -> tuple[int, ...]:
        """Return the numbers for a step with this many microbatches; empty: deal them evenly."""
        self._microbatches, self._step = microbatches, number
        if sum(self._numbers) != microbatches:  # microbatches have another size now
            self._numbers = ()
        return () if idle else self._numbers

    def note(self, seconds: Sequence[float]) -> None:
        """Decide, at some commits, by the seconds that each process takes for a sample.

        All processes note the same values at the same commit, wherever each is between two steps.
        """
        is_due = self._commits % EVERY_COMMITS == 0
        self._commits += 1
        if not is_due:
            return
        each = len(seconds) // self._copies  # processes of a copy, which wait for each other
        of_copies = [max(seconds[first : first + each]) for first in range(0, len(seconds), each)]
        present = self._numbers or tuple(
            len(deal(self._microbatches, self._copies, copy)) for copy in range(self._copies)
        )
        numbers = deal_anew(present, of_copies)
        if numbers != present:
            self._numbers = numbers
            self._say(of_copies)

    def _say(self, seconds: Sequence[float]) -> None:
        facts = {"microbatches": self._numbers, "sample_seconds": seconds}
        self._trace.mark("dealt", from_step=self._step + 1, **facts)
        if self._is_logged:
            say(f"microbatches are dealt by speed: {described(self._numbers, seconds)}")


def described(numbers: Sequence[int], seconds: Sequence[float]) -> str:
    """Return a short text: how many each copy gets, and its time relative to the fastest."""
    least = min((each for each in seconds if each > 0), default=1.0)
    times = [each / least for each in seconds]
    if len(numbers) > MOST_SAID:
        slow = max(range(len(times)), key=times.__getitem__)
        return (
            f"from {min(numbers)} to {max(numbers)} each (copy {slow} is the slowest: for one it "
            f"takes {times[slow]:.2f} times as long as the fastest)"
        )
    said = ", ".join(f"{each:.2f}" if each else "not known" for each in times)
    return f"{', '.join(map(str, numbers))} (time for one, relative to the fastest: {said})"
