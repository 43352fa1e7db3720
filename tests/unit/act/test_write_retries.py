"""How often writes are tried that fail again and again, and what does not wait for them."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from spotrun.act.executor import Executor, Outcome
from spotrun.act.manifests.worker_settings import Settings
from spotrun.api.field_types.text_values import Intervals
from spotrun.api.names import Reason
from spotrun.kube.errors import Ambiguous, Forbidden, KubeError, Retryable, Unauthorized
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Client
from spotrun.observe.jobs.leader_memory import Memory
from spotrun.state.actions import Action, Create, Decision, Release, Remove
from spotrun.state.job_state import World
from spotrun.state.snapshot import JobSnapshot, Undone
from tests.support.jobs.builders import NOW, a_job
from tests.unit.act.helpers import NoCaches
from tests.unit.kube.scripted import ScriptedTransport, written

TOO_LARGE = Ambiguous("etcdserver: request is too large", status=500)
HOOK_DOWN = Forbidden("the webhook says no", status=403)
BUSY = Retryable("busy", status=429, retry_after_seconds=7)
ENDING = Ambiguous("apiserver is shutting down", status=503, retry_after_seconds=5)


@dataclass
class Server:
    """An API server that answers every write in its own way, and a clock that a test moves."""

    errors: dict[str, KubeError]  # by HTTP method
    seconds: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)
    memory: Memory = field(default_factory=Memory)
    counted: list[KubeError] = field(default_factory=list)
    leads: bool = True

    def __post_init__(self) -> None:
        client = Client(ScriptedTransport(self._answer), field_manager="test")
        horizon: Horizon[Key, Resource] = Horizon(NoCaches(), self._clock)
        self.executor = Executor(
            client,
            horizon,
            lambda: Settings(server="sync:9443", ca_pem="PEM"),
            lambda *_: None,
            leads=lambda: self.leads,
            clock=self._clock,
            wall=lambda: NOW,
            roll=lambda: 1.0,
            count_failure=self.counted.append,
        )

    def _clock(self) -> float:
        return self.seconds

    def _answer(self, method: str, path: str, body: Any) -> Any:
        self.asked[method] += 1
        if method in self.errors:
            raise self.errors[method]
        return written(path, body)

    def times(self) -> list[int]:
        """How often each write that fails has failed in a row."""
        return [failing.times for failing in self.memory.failing.values()]

    async def carry_out(self, job: JobSnapshot, decision: Decision) -> Outcome:
        self.memory.policy_at = self.memory.budget_at = self.seconds  # protected
        self.memory.accepted = job.template
        return await self.executor.carry_out(job, decision, self.memory)

    async def live(self, seconds: float, *actions: Action, wake_seconds: float = 0.25) -> Outcome:
        """Decide the same for so long, whenever something wakes the job."""
        job = a_job().snapshot()
        end = self.seconds + seconds
        while True:
            outcome = await self.carry_out(job, Decision(job.status, actions))
            if self.seconds >= end:
                return outcome
            self.seconds += wake_seconds


CREATE = Create(0)


WORLD = World(number=1, members=(0,), is_active=True)


def removal(worker_id: int) -> Remove:
    return Remove(worker_id, f"uid-{worker_id}", Reason.RESIZING, "for the test")


async def test_a_pod_that_etcd_finds_too_large_is_not_sent_every_second() -> None:
    server = Server({"POST": TOO_LARGE})

    outcome = await server.live(600, CREATE)

    # After 0, 1, 1, 1, 1, 1.6, 3.2, 6.4 ... s, and then every 2 min.
    assert server.asked == {"POST": 15}
    assert outcome.stored
    assert outcome.failure is None
    assert server.times() == [15]
    assert server.memory.undone == Undone(
        "the creation of workers of template t1", TOO_LARGE.message
    )
    assert server.counted == [TOO_LARGE] * 15


async def test_another_template_is_tried_at_once() -> None:
    server = Server({"POST": TOO_LARGE})
    await server.live(600, CREATE)
    job = replace(a_job().snapshot(), template="another")

    await server.carry_out(job, Decision(job.status, (CREATE,)))

    assert server.asked == {"POST": 16}
    assert server.times() == [1]
    assert server.memory.undone is None, "once may be an accident"


@pytest.mark.parametrize("error", [TOO_LARGE, HOOK_DOWN], ids=str)
async def test_a_write_that_fails_for_long_holds_up_no_other_one(error: KubeError) -> None:
    server = Server({"POST": error, "DELETE": error})
    await server.live(600, CREATE, removal(0))
    server.errors = {"POST": error}
    server.asked.clear()

    outcome = await server.live(0, CREATE, removal(0), removal(1))

    assert server.asked == {"DELETE": 1}, "the removal of 1 is tried, that of 0 was just refused"
    assert outcome.failure is None
    assert outcome.wake_after_seconds < 120


async def test_what_fails_is_forgotten_with_its_success_and_when_nobody_wants_it() -> None:
    server = Server({"DELETE": HOOK_DOWN})
    await server.live(1, removal(0), removal(1))
    assert min(server.times()) > 1

    server.errors = {}
    server.seconds += 120
    await server.live(0, removal(0))
    assert server.memory.failing == {}


async def test_where_some_of_many_are_made_the_others_are_soon_tried_again() -> None:
    server = Server({})
    pods = iter(range(10_000))

    def every_second(method: str, path: str, body: Any) -> Any:
        if next(pods) % 2:
            raise TOO_LARGE
        return written(path, body)

    server._answer = every_second  # type: ignore[method-assign]
    server.__post_init__()
    for _ in range(9):
        outcome = await server.live(0, *map(Create, range(8)))
        assert outcome.wake_after_seconds == pytest.approx(1.1)
        server.seconds += outcome.wake_after_seconds


async def test_a_status_that_cannot_be_stored_is_tried_later_and_later() -> None:
    server = Server({"PATCH": TOO_LARGE})
    job = a_job().snapshot()
    decision = Decision(replace(job.status, next_worker_id=7))
    while server.seconds < 600:
        outcome = await server.carry_out(job, decision)
        assert not outcome.stored
        server.seconds += 0.25

    assert server.asked == {"PATCH": 15}
    changed = replace(job, generation=job.generation + 1)
    await server.carry_out(changed, decision)
    assert server.asked == {"PATCH": 16}, "somebody may have mended it"


@pytest.mark.parametrize(("deleting", "released"), [(False, []), (True, [3])])
async def test_a_deleted_job_is_let_go_of_though_its_last_cost_cannot_be_stored(
    deleting: bool, released: list[int]
) -> None:
    server = Server({})
    failures: list[str] = []
    let_go_after: list[int] = []

    def refuses_status(method: str, path: str, _: Any) -> Any:
        if path.endswith("/status"):
            failures.append(path)
            raise TOO_LARGE
        let_go_after.append(len(failures))
        return {"metadata": {"name": "made", "resourceVersion": "9", "finalizers": []}}

    server._answer = refuses_status  # type: ignore[method-assign, assignment]
    server.__post_init__()
    job = a_job(1).training(0).with_facts(deleting=deleting).snapshot()
    status = replace(job.status, settled=Intervals("0").ranges)
    decision = Decision(status, (Release(0, "uid-0"),))
    while len(failures) < 4 and not let_go_after:
        await server.carry_out(job, decision)
        server.seconds += 1
    assert let_go_after == released


@pytest.mark.parametrize("error", [BUSY, ENDING, Retryable("cannot connect"), Unauthorized("who?")])
async def test_a_server_that_is_away_or_busy_has_the_whole_job_wait(error: KubeError) -> None:
    server = Server({"POST": error})

    for _ in range(3):
        outcome = await server.live(0, CREATE)
        assert (outcome.failure, server.times()) == (error, []), "it is no write's failure"
    assert server.counted == [], "whoever raises them counts them"


async def test_a_budget_that_cannot_be_made_holds_a_training_up_for_three_tries() -> None:
    server = Server({"POST": TOO_LARGE})
    job = a_job().snapshot()
    begins = Decision(replace(job.status, world=WORLD))

    stored = []
    for _ in range(3):
        outcome = await server.executor.carry_out(job, begins, server.memory)
        stored.append(outcome.stored)
        server.seconds += 2

    assert stored == [False, False, True]
    assert server.memory.failing == {}, "it trains without one"
    assert server.memory.budget_at == 4.0, "its workers are not held up either, for a while"


async def test_a_budget_that_cannot_be_made_holds_up_nothing_but_a_training() -> None:
    server = Server({"POST": TOO_LARGE})
    job = a_job().snapshot()
    begins = Decision(replace(job.status, world=WORLD))
    assert not (await server.executor.carry_out(job, begins, server.memory)).stored

    other = Decision(replace(job.status, next_worker_id=7))
    outcome = await server.executor.carry_out(job, other, server.memory)

    assert outcome.stored
    assert server.memory.failing == {}


async def test_that_a_server_was_away_forgives_no_write_what_it_failed_at() -> None:
    server = Server({"POST": TOO_LARGE})
    await server.live(600, CREATE)
    failing = server.memory.failing
    server.seconds += 120
    server.errors = {"POST": BUSY}

    assert (await server.live(0, CREATE)).failure == BUSY

    assert server.memory.failing == failing


async def test_that_workers_could_not_be_made_is_forgotten_when_none_is_to_be_made() -> None:
    server = Server({"POST": TOO_LARGE})
    await server.live(60, CREATE)
    assert server.memory.undone is not None

    await server.live(0)

    assert server.memory.failing == {}
