from dataclasses import replace
from typing import Any

import pytest

from spotrun.observe.telemetry.agents import Agents
from spotrun.wire import Checkpoint, Failure, Progress, Report, Utilization


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def agents(time: Time) -> Agents:
    return Agents(time)


def test_the_first_report_is_news(agents: Agents) -> None:
    assert agents.take_report("job", 0, Report())
    assert not agents.take_report("job", 0, Report())


@pytest.mark.parametrize(
    ("change", "is_news"),
    [
        ({"ready": True}, True),
        ({"arrived": 2}, True),
        ({"failed": Failure(1, 1, "x")}, True),
        ({"suspects": (1,)}, True),
        ({"store_port": 2}, True),
        ({"committed": Checkpoint("step-1.g1", 1)}, True),
        ({"completed": True}, True),
        ({"in_process": True}, True),
        ({"progress": Progress(1, 0)}, False),
        ({"progress": Progress(1, 99)}, True),
        ({"utilization": Utilization(gpu=0.5)}, False),
        ({"wire": 2}, False),
    ],
)
def test_what_is_worth_looking_at_the_job_again(
    agents: Agents, change: dict[str, Any], is_news: bool
) -> None:
    agents.take_report("job", 0, Report())
    changed = replace(Report(), **change)
    assert agents.take_report("job", 0, changed) is is_news
    facts = agents.facts("job", 0)
    assert facts is not None
    assert facts.report == changed


def test_first_steps_are_worth_a_look_and_so_is_how_long_they_take(agents: Agents) -> None:
    told = (None, 2.0, 2.0, 2.5)
    reports = [Report(progress=Progress(1, 1 + n, step_seconds=s)) for n, s in enumerate(told)]
    agents.take_report("job", 0, Report())
    assert [agents.take_report("job", 0, report) for report in reports] == [
        True,
        True,
        False,
        False,
    ]


def test_any_change_of_progress_is_a_step_forward(agents: Agents, time: Time) -> None:
    def stands() -> float | None:
        facts = agents.facts("job", 0)
        assert facts is not None
        return facts.progress_seconds

    agents.take_report("job", 0, Report())
    assert stands() is None
    agents.take_report("job", 0, Report(progress=Progress(1, 5)))
    time.now = 3
    agents.take_report("job", 0, Report(progress=Progress(1, 5), suspects=(1,)))
    assert stands() == 3
    agents.take_report("job", 0, Report(progress=Progress(1, 5, samples=8)))
    assert stands() == 0
    time.now = 5
    assert stands() == 2


def test_ages(agents: Agents, time: Time) -> None:
    assert agents.facts("job", 0) is None
    agents.take_report("job", 0, Report())
    time.now = 10
    agents.take_report("job", 0, Report(ready=True, arrived=1))
    time.now = 15
    agents.take_report("job", 0, Report(ready=True, arrived=2))
    time.now = 17
    facts = agents.facts("job", 0)
    assert facts is not None
    assert (facts.heard_seconds, facts.ready_seconds, facts.arrived_seconds) == (2, 7, 2)
    agents.take_report("job", 0, Report())
    facts = agents.facts("job", 0)
    assert facts is not None
    assert facts.ready_seconds is None


def test_an_open_poll_is_a_sign_of_life_until_it_is_answered(agents: Agents, time: Time) -> None:
    def silent_seconds() -> float:
        facts = agents.facts("job", 0)
        assert facts is not None
        return facts.heard_seconds

    agents.take_report("job", 0, Report())
    agents.hold("job", 0)
    time.now = 20
    assert silent_seconds() == 0
    agents.hold("job", 0)  # a newer poll comes before the older one is let go of
    agents.let_go("job", 0)
    time.now = 30
    assert silent_seconds() == 0
    agents.let_go("job", 0)
    time.now = 31
    assert silent_seconds() == 1
    agents.touch("job", 0)
    assert silent_seconds() == 0
    agents.let_go("job", 0)
    agents.let_go("job", 1)  # nobody knows it: nothing happens


def test_a_poll_before_the_first_report_is_not_a_report(agents: Agents) -> None:
    agents.touch("job", 0)
    agents.hold("job", 0)
    assert agents.facts("job", 0) is None
    assert agents.take_report("job", 0, Report())


def test_an_agent_whose_reports_are_refused(agents: Agents) -> None:
    assert not agents.speaks_old_wire("job", 0)
    assert agents.too_old("job", 0)
    assert not agents.too_old("job", 0)
    assert agents.speaks_old_wire("job", 0)
    assert agents.facts("job", 0) is None
    agents.take_report("job", 0, Report())
    assert not agents.speaks_old_wire("job", 0)


def test_only_workers_that_there_are_are_remembered(agents: Agents) -> None:
    for worker_id in range(4):
        agents.take_report("job", worker_id, Report())
    agents.take_report("other", 0, Report())
    agents.keep("job", {1, 2, 9})
    assert [s for s in range(4) if agents.facts("job", s)] == [1, 2]
    assert agents.facts("other", 0) is not None
    agents.forget("other")
    assert agents.facts("other", 0) is None


def test_memory_is_bounded(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spotrun.observe.telemetry.agents.MOST_WORKERS", 3)
    for worker_id in range(10):
        agents.take_report("job", worker_id, Report())
    assert [worker_id for worker_id in range(10) if agents.facts("job", worker_id)] == [7, 8, 9]
