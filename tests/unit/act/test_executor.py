"""What the executor makes of an answer that comes at an odd moment."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from spotrun.act.executor import Executor, Outcome
from spotrun.act.manifests.worker_settings import Settings
from spotrun.kube.errors import Conflict, KubeError, NotFound, NotLeading
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Client
from spotrun.observe.jobs.leader_memory import Memory
from spotrun.state.actions import Create, Decision, DeleteJob
from tests.support.jobs.builders import NOW, a_job
from tests.unit.act.helpers import NoCaches
from tests.unit.kube.scripted import Answer, ScriptedTransport


def an_executor(
    answer: Answer, horizon: Horizon[Key, Resource], leads: Callable[[], bool] = lambda: True
) -> Executor:
    return Executor(
        Client(ScriptedTransport(answer), field_manager="test"),
        horizon,
        lambda: Settings(server="sync:9443", ca_pem="PEM"),
        lambda *_: None,
        leads=leads,
        clock=lambda: 0.0,
        wall=lambda: NOW,
        roll=lambda: 0.0,
    )


class Jobs:
    """A cache that shows one job."""

    def __init__(self, version: int) -> None:
        self.newest = version
        self.shown: int | None = version

    def last_version(self, _: Resource) -> int:
        return self.newest

    def version_of(self, *_: object) -> int | None:
        return self.shown

    def listed_at(self, _: Resource) -> float:
        return float("-inf")

    def moved_at(self, _: Resource) -> float:
        return float("-inf")


@pytest.mark.parametrize("error", [Conflict("changed"), NotFound("deleted")], ids=str)
async def test_a_job_that_changed_or_went_before_the_cache_shows_it_is_looked_at_again(
    error: KubeError,
) -> None:
    def answer(*_: Any) -> Any:
        raise error

    executor = an_executor(answer, Horizon(NoCaches(), lambda: 0.0))
    memory, job = Memory(), a_job()

    looks = [await executor.carry_out(job.snapshot(), job.decide(), memory) for _ in range(3)]

    # No failure: that would be a warning in the log for each job that is deleted amid work.
    assert looks == [Outcome(stored=False, wake_after_seconds=pause) for pause in (0.05, 0.1, 0.2)]
    assert dict(executor.writes) == {}


async def test_a_job_that_was_deleted_is_decided_again_when_the_cache_shows_it() -> None:
    jobs, job = Jobs(7), replace(a_job().snapshot(), version="7")
    horizon: Horizon[Key, Resource] = Horizon(jobs, lambda: 0.0)
    # As the API server answers for a custom resource: without the object.
    executor = an_executor(lambda *_: {"kind": "Status", "metadata": {}}, horizon)

    deleted = await executor.carry_out(job, Decision(job.status, (DeleteJob("over"),)), Memory())

    assert deleted == Outcome(stored=True)
    key = Key(job.namespace, job.name)
    assert not horizon.caught_up(key)
    jobs.newest, jobs.shown = 8, None
    assert horizon.caught_up(key)


@pytest.mark.parametrize("stored", [{}, {"nextWorkerId": 7}], ids=["left out", "another"])
async def test_no_worker_is_made_if_the_api_server_does_not_store_its_id(
    stored: dict[str, int],
) -> None:
    sent = list[str]()

    def answer(_: str, path: str, __: Any) -> Any:
        sent.append(path.rpartition("/")[2])
        return {"metadata": {"name": "lm", "resourceVersion": "9"}, "status": stored}

    executor = an_executor(answer, Horizon(NoCaches(), lambda: 0.0))
    job, memory = a_job(), Memory()
    decision = job.decide()
    assert decision.status.next_worker_id not in (None, 7)

    outcome = await executor.carry_out(job.snapshot(), decision, memory)

    assert sorted(sent) == ["networkpolicies", "status"]
    assert not outcome.stored
    (failing,) = memory.failing.values()
    assert "did not store status.nextWorkerId" in failing.words


async def test_a_batch_of_workers_ends_with_the_lead() -> None:
    job, memory, sent = a_job().snapshot(), Memory(), list[str]()
    memory.accepted, memory.policy_at = job.template, 0.0

    def answer(_: str, path: str, body: Any) -> Any:
        sent.append(path.rpartition("/")[2])
        return {"metadata": {"name": body["metadata"]["name"], "resourceVersion": "9"}}

    horizon: Horizon[Key, Resource] = Horizon(NoCaches(), lambda: 0.0)
    executor = an_executor(answer, horizon, leads=lambda: len(sent) < 7)
    workers = tuple(map(Create, range(100)))

    outcome = await executor.carry_out(job, Decision(job.status, workers), memory)

    assert sent == ["pods"] * 7
    assert isinstance(outcome.failure, NotLeading)
