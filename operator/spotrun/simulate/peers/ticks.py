"""The published simulator: one gang in one pool at a time, with one decision per tick.

Rules and accounting are those of "Can't Be Late" (NSDI'24): spot is available or not for a whole
tick; a launch is paid from its first tick and does no work for a changeover; a job that is about to
be late runs on on-demand, whatever the policy chooses (the safety net).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import ceil, floor

from spotrun.api.capacitypool import Capacity
from spotrun.simulate.market.virtual_market import Pool, VirtualMarket
from spotrun.simulate.outcome import Course, Lease
from spotrun.simulate.scenario import Job, Observe, Rules

_HAIR = 1e-6


class Mode(Enum):
    """The capacity that the gang runs on."""

    IDLE = "idle"
    SPOT = "spot"
    ON_DEMAND = "on demand"


@dataclass(frozen=True)
class Look:
    """The facts that a policy knows at the beginning of a tick."""

    elapsed: float
    done: float  # work that is done and saved
    mode: Mode
    spot_is_available: bool


Wish = Callable[[Look, Job, Rules], Mode]
"""A function that returns the capacity that a policy wants for the gang; the safety net can
override it."""


def play(wish: Wish, job: Job, market: VirtualMarket, rules: Rules) -> Course:
    """Let a policy run a job on a market."""
    gang = _Gang(wish, job, market, rules)
    while gang.left > _HAIR and gang.elapsed < job.given_up_seconds:
        gang.tick()
    return gang.course()


class _Gang:
    def __init__(self, wish: Wish, job: Job, market: VirtualMarket, rules: Rules) -> None:
        self._wish, self._job, self._market, self._rules = wish, job, market, rules
        self._gap = market.tick_seconds
        self._number = 0  # the number of the tick
        self._pool: Pool | None = None
        self._since = 0.0
        self._overhead = 0.0  # seconds left of the changeover of the last launch
        self._done = self._saved = self._lost = 0.0
        self._unsaved_seconds = 0.0
        self._idle_since = 0.0
        self._end = 0.0
        self._leases: list[Lease] = []

    @property
    def elapsed(self) -> float:
        return self._number * self._gap

    @property
    def left(self) -> float:
        return self._job.work_seconds - self._done

    def course(self) -> Course:
        is_finished = self.left <= _HAIR
        self._leave(self._end)
        return Course(self._leases, self._end if is_finished else None, self._lost)

    def tick(self) -> None:
        """Lose the node if it is taken away, decide, and work."""
        if self._pool is not None and self._mode is Mode.SPOT and not self._has_room(self._pool):
            self._lose()
        mode = self._mode
        available = [pool for pool in self._market.spot if self._has_room(pool)]
        wish = self._netted(
            self._wish(self._look(mode, bool(available)), self._job, self._rules), mode
        )
        if wish is not mode:
            self._move(wish, available)
        self._work()
        self._number += 1

    def _look(self, mode: Mode, is_available: bool) -> Look:
        waits = self._rules.observe is Observe.ATTEMPTS and mode is Mode.IDLE
        # A policy that asks waits for the answer; until then spot counts as available.
        hopes = waits and self.elapsed - self._idle_since < self._rules.provision_seconds
        return Look(self.elapsed, self._saved, mode, is_available or hopes)

    @property
    def _mode(self) -> Mode:
        if self._pool is None:
            return Mode.IDLE
        return Mode.SPOT if self._pool.capacity is Capacity.SPOT else Mode.ON_DEMAND

    def _has_room(self, pool: Pool) -> bool:
        return pool.offer(self.elapsed).nodes >= self._job.workers

    def _netted(self, wish: Mode, mode: Mode) -> Mode:
        """Apply the safety net: from idle, spot could be lost once, which takes two changeovers."""
        if mode is not Mode.SPOT and self._is_late(2 * self._rules.changeover_seconds):
            wish = Mode.ON_DEMAND
        if self._is_late(self._rules.changeover_seconds):
            # On spot, work and time left shrink equally, so the gang may stay until it is lost.
            stays = mode is Mode.SPOT and self._overhead <= 0
            wish = Mode.SPOT if stays else Mode.ON_DEMAND
        return wish

    def _is_late(self, margin: float) -> bool:
        need = self._job.work_seconds - self._saved + margin
        time = self._job.deadline_seconds - self.elapsed
        return ceil(need / self._gap - _HAIR) >= floor(time / self._gap + _HAIR)

    def _move(self, wish: Mode, available: list[Pool]) -> None:
        chosen = available if wish is Mode.SPOT else self._on_demand_with_room()
        if wish is not Mode.IDLE and not chosen:
            return
        self._leave(self.elapsed)
        if wish is not Mode.IDLE:
            self._pool = min(chosen, key=lambda pool: pool.offer(self.elapsed).usd_per_hour)
            self._since, self._overhead = self.elapsed, self._rules.changeover_seconds

    def _on_demand_with_room(self) -> list[Pool]:
        return [pool for pool in self._market.on_demand if self._has_room(pool)]

    def _work(self) -> None:
        if self._pool is None:
            return
        work = min(max(self._gap - self._overhead, 0.0), self.left)
        self._end = self.elapsed + self._gap
        self._overhead = max(self._overhead - self._gap, 0.0)
        self._done += work
        self._unsaved_seconds += work
        if self._unsaved_seconds >= self._rules.checkpoint_seconds or self._must_save():
            self._save()

    def _must_save(self) -> bool:
        """Whether work that is lost now could not be repeated before the deadline."""
        return self._is_late(self._rules.changeover_seconds + self._gap)

    def _save(self) -> None:
        self._saved, self._unsaved_seconds = self._done, 0.0

    def _leave(self, moment: float) -> None:
        """Leave the pool with all work saved."""
        if self._pool is not None:
            self._leases.append(Lease(self._pool, self._since, moment, self._job.workers))
            self._save()
            self._idle_since = moment
        self._pool = None

    def _lose(self) -> None:
        assert self._pool is not None, "only a gang with a node can lose it"
        taken = Lease(self._pool, self._since, self.elapsed, self._job.workers, was_taken=True)
        self._leases.append(taken)
        self._lost += self._done - self._saved
        self._done, self._unsaved_seconds = self._saved, 0.0
        self._pool, self._idle_since = None, self.elapsed
