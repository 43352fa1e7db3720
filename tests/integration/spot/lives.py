"""Lives on a spot market: a story, the worlds by which it leads, and what it may cost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from itertools import pairwise

from tests.faults.rules import Action, Rule
from tests.integration.spot.stories import (
    SPOT_USD_PER_HOUR,
    all_lost,
    base_kept,
    came_back,
    fell_back,
    hurried,
    lost_together,
    lost_while_it_grows,
    lost_while_it_recovers,
    lost_while_it_saves,
    shrunk,
    swapped,
    waited,
    wavering,
)
from tests.meter.meter import Meter, metered
from tests.plans.run import Troubled
from tests.plans.scenarios import Stage
from tests.support.cluster.operator_world import PATIENCE_SECONDS, World

TO_THE_LAST_DIGIT = Fraction(1, 10**9)
OF_AN_UNREPORTED_END = 10 * Fraction(SPOT_USD_PER_HOUR) / 3600
"""No kubelet reports when a container was ended that had not begun: operator and meter each note
when they hear of it."""
WHILE_NOBODY_LOOKED = 4 * OF_AN_UNREPORTED_END
"""The cost of four machines that went off, seen ten seconds later."""

_WRITES = "create|patch|delete"
_OF_OURS = r"/(trainingjobs|pods|capacitypools)(/|$)"
_KILLS: tuple[tuple[Action, int], ...] = (("crash_before", 1), ("crash_after", 3))
"""The operator dies before or after the how-manieth write since the last time."""


@dataclass(frozen=True)
class Life:
    """A story, the worlds by which it leads, and how well its cost can be known."""

    story: Callable[[Stage], Awaitable[None]]
    worlds: tuple[set[int], ...]
    within_usd: Fraction = TO_THE_LAST_DIGIT

    async def play(self, stage: Stage) -> None:
        """Live it to its end, with an independent meter beside."""
        async with metered(stage.world.kube, stage.world.namespace) as meter:
            await self.story(stage)
            await self._costs_what_was_used(stage.world, meter)

    async def _costs_what_was_used(self, world: World, meter: Meter) -> None:
        await meter.has_seen_all_ends("job")
        status = (await world.job())["status"]
        metered_usd = meter.usd("job", datetime.fromisoformat(status["cost"]["asOf"]))
        assert metered_usd > 0
        words = f"{status['accumulators']['usd']} instead of {float(metered_usd)}: {meter}"
        within_usd = self.within_usd + meter.unreported_ends("job") * OF_AN_UNREPORTED_END
        assert abs(Fraction(status["accumulators"]["usd"]) - metered_usd) <= within_usd, words

    def strays(self, entered: Sequence[frozenset[int]]) -> list[str]:
        """Return what is wrong about the way that was taken.

        Between two of its worlds there may be others on the way: without anybody who is in neither,
        and with all who are in both.
        """
        left, complaints = list(self.worlds), []
        ends = [frozenset(left[0]), frozenset(left[-1])]
        if not entered or [entered[0], entered[-1]] != ends:
            complaints.append(f"it began with {entered[:1]} and ended with {entered[-1:]}")
        steps = pairwise(left)
        here, following = next(steps, (left[0], left[0]))
        for world in entered:
            if world == following:
                here, following = next(steps, (following, following))
            if not here & following <= world <= here | following:
                complaints.append(f"{set(world)} is not on the way from {here} to {following}")
        return complaints


@asynccontextmanager
async def operator_killed(it: Troubled) -> AsyncIterator[None]:
    """Kill the operator in the middle of the life, again and again."""
    rules = [
        it.proxy.inject(Rule(how, verb=_WRITES, path=_OF_OURS, nth=nth)) for how, nth in _KILLS
    ]
    yield
    async with asyncio.timeout(PATIENCE_SECONDS):
        for rule in rules:
            await rule.struck.wait()
            it.proxy.heal(rule)


LIVES: dict[str, Life] = {
    one.story.__name__: one
    for one in (
        Life(swapped, ({0, 1}, {0, 2})),
        Life(shrunk, ({0, 1}, {0})),
        Life(lost_together, ({0, 1, 2, 3}, {0, 4, 5, 6}), WHILE_NOBODY_LOOKED),
        Life(all_lost, ({0, 1, 2}, {3, 4, 5}), WHILE_NOBODY_LOOKED),
        Life(lost_while_it_grows, ({0, 1}, {0}, {0, 2, 3}), WHILE_NOBODY_LOOKED),
        Life(lost_while_it_recovers, ({0, 1, 2}, {0, 3, 4}), WHILE_NOBODY_LOOKED),
        Life(lost_while_it_saves, ({0}, {1}), WHILE_NOBODY_LOOKED),
        Life(waited, ({0},)),
        Life(wavering, ({0, 1},)),
        Life(fell_back, ({1},)),
        Life(came_back, ({1}, {2})),
        Life(base_kept, ({0, 1}, {1, 2}), WHILE_NOBODY_LOOKED),
        Life(hurried, ({0, 1}, {2, 3})),
    )
}
