"""A trial that a quota refuses waits; one whose job is wrong fails."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from spotrun.act.tuning import TuningMemory, TuningWriter
from spotrun.api.tuning.words import TrialPhase
from spotrun.kube.errors import Forbidden, Invalid, KubeError
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.rest.client import Client
from tests.support.jobs.builders import NOW
from tests.support.tuning.searches import a_search
from tests.unit.act.helpers import NoCaches

QUOTA = Forbidden('trainingjobs "search-0" is forbidden: exceeded quota: few')
PENDING = a_search().with_trial(TrialPhase.PENDING)


@dataclass
class Refusing:
    """An API server that refuses each TrainingJob."""

    error: KubeError
    now: float = 100.0
    num_asked: int = 0
    memory: TuningMemory = field(default_factory=TuningMemory)

    async def create(self, *_: Any, **__: Any) -> None:
        self.num_asked += 1
        raise self.error

    async def carry_out(self) -> float:
        writer = TuningWriter(
            cast("Client", self),
            Horizon(NoCaches(), lambda: self.now),
            leads=lambda: True,
            clock=lambda: self.now,
            wall=lambda: NOW,
            instance="here",
        )
        snapshot, [step] = PENDING.snapshot(), PENDING.decide().steps
        return await writer._do(snapshot, step, self.memory)


async def test_a_quota_is_asked_again_after_a_while_and_not_at_each_look() -> None:
    server = Refusing(QUOTA)
    await server.carry_out()
    assert server.memory.refused == {}
    assert server.memory.over_quota == {0: "exceeded quota: few"}
    server.now += 5
    assert (await server.carry_out(), server.num_asked) == (10, 1)
    server.now += 10
    await server.carry_out()
    assert server.num_asked == 2


@pytest.mark.parametrize("error", [Forbidden("not allowed"), Invalid("no such field")])
async def test_another_refusal_is_for_good(error: KubeError) -> None:
    server = Refusing(error)
    await server.carry_out()
    assert server.memory.refused == {0: error.message}
