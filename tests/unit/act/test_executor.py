"""What the executor makes of an answer that comes at an odd moment."""

from typing import Any

import pytest

from spotrun.act.executor import Executor, Outcome
from spotrun.act.settings import Settings
from spotrun.kube.client import Client
from spotrun.kube.errors import Conflict, KubeError, NotFound
from spotrun.kube.horizon import Horizon
from spotrun.observe.memory import Memory
from tests.decide_builders import NOW, a_job
from tests.unit.act.helpers import NoCaches
from tests.unit.kube.scripted import ScriptedTransport


def an_executor(error: KubeError) -> Executor:
    """One whose every request is answered by this."""

    def answer(*_: Any) -> Any:
        raise error

    return Executor(
        Client(ScriptedTransport(answer), field_manager="test"),
        Horizon(NoCaches(), lambda: 0.0),
        lambda: Settings(server="sync:9443", ca_pem="PEM"),
        lambda *_: pytest.fail("nothing is stored"),
        clock=lambda: 0.0,
        wall=lambda: NOW,
        roll=lambda: 0.0,
    )


@pytest.mark.parametrize("error", [Conflict("changed"), NotFound("deleted")], ids=str)
async def test_a_job_that_changed_or_went_before_the_cache_shows_it_is_looked_at_again(
    error: KubeError,
) -> None:
    executor, memory, job = an_executor(error), Memory(), a_job()

    looks = [await executor.carry_out(job.snapshot(), job.decide(), memory) for _ in range(3)]

    # No failure: that would be a warning in the log for each job that is deleted amid work.
    assert looks == [Outcome(stored=False, again_seconds=pause) for pause in (0.05, 0.1, 0.2)]
    assert dict(executor.writes) == {}
