"""The agent between torchrun and an operator that says what a test wants."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spotrun.wire import Checkpoint, Ending, Failure, LastWords, Progress, World, read_last_words
from spotrun_trainer.agent import state
from spotrun_trainer.agent.agent import Agent
from spotrun_trainer.agent.settings import Settings
from spotrun_trainer.process.ipc_files import WorldFile, write_progress
from spotrun_trainer.process.progress_report import TrainerProgress
from tests.unit.trainer.agent.builders import ScriptedOperator, a_world, an_answer, settings

Start = Callable[..., Agent]


@pytest.fixture(autouse=True)
def _arrives_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "ARRIVED_SECONDS", 0.0)


@pytest.fixture
def operator() -> ScriptedOperator:
    return ScriptedOperator()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def start(operator: ScriptedOperator, tmp_path: Path) -> Iterator[Start]:
    started: list[Agent] = []

    def start(**changes: Any) -> Agent:
        chosen: Settings = settings(tmp_path, **changes)
        started.append(Agent(chosen, connect=lambda *_: operator))
        return started[-1]

    yield start
    for agent in started:
        agent.end()


class Waiting:
    """A call that may block, as torchrun's main thread makes it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._found: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._found = self._call()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(10)
        assert self.is_over
        return self._found


def test_a_worker_waits_ready_and_enters_the_world_that_it_is_told(
    operator: ScriptedOperator, start: Start, folder: Path
) -> None:
    agent = start()
    entering = Waiting(agent.next_world)
    ready = operator.until_reported(ready=True, arrived=0)
    assert ready.store_port is not None
    operator.say(an_answer(a_world(1, switch=False)))
    operator.say(an_answer(a_world(1, store=None)))
    assert not entering.is_over
    said = an_answer(a_world(1))
    operator.say(said)

    assert entering.result() == a_world(1)
    operator.until_reported(ready=False, arrived=1)
    assert WorldFile(folder).read() == said


def test_the_spare_store_is_replaced_once_it_is_given_out(
    operator: ScriptedOperator, start: Start
) -> None:
    agent = start()
    entering = Waiting(agent.next_world)
    port = operator.until_reported(ready=True).store_port
    operator.say(an_answer(a_world(1, store=f"127.0.0.1:{port}")))
    entering.result()

    operator.until_reported(arrived=1)
    assert operator.reports[-1].store_port not in {None, port}


def test_the_word_of_a_replica_that_is_behind_counts_for_nothing(
    operator: ScriptedOperator, start: Start, folder: Path
) -> None:
    agent = start()
    operator.say(an_answer(a_world(5)))
    assert agent.next_world() == a_world(5)
    operator.say(an_answer(a_world(4)))
    operator.say(an_answer(a_world(6, switch=False)))
    write_progress(folder, TrainerProgress(step=1))
    operator.until_reported(arrived=5)

    assert not agent.must_stop()
    operator.say(an_answer(a_world(6)))
    assert Waiting(lambda: _until(agent.must_stop)).result()


def _until(holds: Callable[[], bool]) -> bool:
    while not holds():
        threading.Event().wait(0.01)
    return True


def test_what_the_trainer_tells_is_reported(
    operator: ScriptedOperator, start: Start, folder: Path
) -> None:
    agent = start()
    operator.say(an_answer(a_world(1)))
    agent.next_world()
    told = TrainerProgress(world_number=1, step=20, total=100, samples=160, step_seconds=0.5)
    write_progress(folder, told)
    operator.until_reported(progress=Progress(1, 20, 100, 160, 0.5))
    write_progress(folder, TrainerProgress(world_number=1, step=30, checkpoint="step-30.g1"))
    operator.until_reported(committed=Checkpoint("step-30.g1", 30))


def test_what_was_told_outlives_the_processes_but_what_they_were_does_not(
    operator: ScriptedOperator, start: Start, folder: Path
) -> None:
    agent = start()
    operator.say(an_answer(a_world(1)))
    agent.next_world()
    write_progress(
        folder,
        TrainerProgress(
            world_number=1, step=30, checkpoint="step-30.g1", broken=1, failure="no", completed=True
        ),
    )
    operator.until_reported(completed=True)
    operator.say(an_answer(a_world(2)))
    agent.next_world()

    found = operator.until_reported(arrived=2, completed=False)
    assert (found.committed, found.progress) == (Checkpoint("step-30.g1", 30), Progress(1, 30))
    assert not (folder / "progress.json").exists()


def test_a_report_is_made_again_when_another_operator_may_have_come(
    operator: ScriptedOperator, start: Start
) -> None:
    start()
    first = operator.until_reported(ready=False)
    operator.is_away = True
    operator.say(an_answer(phase="Starting"))
    threading.Event().wait(0.1)
    with operator.news:
        operator.reports.clear()
        operator.is_away = False

    assert operator.until_reported(ready=False) == first


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (TrainerProgress(), Failure(1, 3, "rank 0 ended with exit code 3")),
        (TrainerProgress(failure="ValueError: no"), Failure(1, 3, "ValueError: no")),
    ],
)
def test_a_failure_is_reported_in_the_trainers_words_if_it_has_some(
    operator: ScriptedOperator,
    start: Start,
    folder: Path,
    progress: TrainerProgress,
    expected: Failure,
) -> None:
    agent = start()
    operator.say(an_answer(a_world(1)))
    agent.next_world()
    write_progress(folder, progress)
    agent.fail(3, "rank 0 ended with exit code 3")
    operator.until_reported(failed=expected, arrived=1)
    entering = Waiting(agent.next_world)
    operator.until_reported(failed=expected, ready=True)
    operator.say(an_answer(a_world(2)))

    assert entering.result() == a_world(2)
    operator.until_reported(failed=None, arrived=2)


def test_a_process_that_meant_to_end_has_not_failed(
    operator: ScriptedOperator, start: Start, folder: Path
) -> None:
    agent = start()
    operator.say(an_answer(a_world(1)))
    agent.next_world()
    write_progress(folder, TrainerProgress(world_number=1, step=9, exiting="departed"))
    agent.fail(1, "")
    agent.fail_unless_known()

    assert agent.next_world() == LastWords(Ending.DEPARTED, 9)
    assert [report.failed for report in operator.reports if report.failed] == []


def test_a_failure_of_which_nothing_is_known_is_one(
    operator: ScriptedOperator, start: Start
) -> None:
    agent = start()
    agent.fail_unless_known()
    operator.say(an_answer(a_world(1)))
    agent.next_world()
    agent.fail_unless_known()

    message = "a training process failed; its log says why"
    operator.until_reported(failed=Failure(1, 1, message))


def test_a_worker_that_is_alone_is_done_at_once(
    operator: ScriptedOperator, start: Start, tmp_path: Path
) -> None:
    agent = start()
    entering = Waiting(agent.next_world)
    port = operator.until_reported(ready=True).store_port
    operator.say(an_answer(a_world(1, size=1, store=f"127.0.0.1:{port}")))
    entering.result()

    words = agent.finish()
    assert words == LastWords(Ending.COMPLETED)
    assert operator.reports[-1].completed
    agent.end(words)
    assert read_last_words((tmp_path / "last-words").read_text()) == words


def test_a_worker_that_is_done_waits_for_the_others(
    operator: ScriptedOperator, start: Start, tmp_path: Path
) -> None:
    agent = start()
    other_operator = ScriptedOperator()
    other = Agent(
        settings(tmp_path, directory=tmp_path / "other", address="127.0.0.2"),
        connect=lambda *_: other_operator,
    )
    entering = Waiting(agent.next_world)
    port = operator.until_reported(ready=True).store_port
    for each, rank in ((operator, 0), (other_operator, 1)):
        each.say(an_answer(a_world(1, rank=rank, store=f"127.0.0.1:{port}")))
    entering.result()
    other.next_world()

    done = Waiting(agent.finish)
    assert not operator.until_reported(arrived=1).completed
    assert not done.is_over
    assert other.finish() == LastWords(Ending.COMPLETED)
    assert done.result() == LastWords(Ending.COMPLETED)
    other.end(LastWords(Ending.COMPLETED))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (an_answer(a_world(2)), None),
        (an_answer(a_world(2, processes=0)), Ending.DEPARTED),
        (an_answer(phase="Succeeded"), Ending.COMPLETED),
    ],
)
def test_a_worker_that_is_done_hears_how_the_others_went_on(
    operator: ScriptedOperator, start: Start, said: Any, expected: Ending | None
) -> None:
    agent = start()
    operator.say(an_answer(a_world(1)))  # its store is nowhere: rank 0 is gone
    agent.next_world()
    done = Waiting(agent.finish)
    operator.until_reported(arrived=1)
    operator.say(said)

    words = done.result()
    assert (words and words.reason) is expected, "None: it is wanted there"


@pytest.mark.parametrize(
    ("checkpoint", "expected"), [(None, Ending.DEPARTED), ("step-9.g1", Ending.COMPLETED)]
)
def test_who_has_completed_the_training_says_so_though_a_world_came_after_that(
    operator: ScriptedOperator,
    start: Start,
    folder: Path,
    checkpoint: str | None,
    expected: Ending,
) -> None:
    """Somebody was lost in the same moment, and the others would only restore what is saved."""
    agent = start()
    operator.say(an_answer(a_world(1)))
    agent.next_world()
    write_progress(
        folder, TrainerProgress(world_number=1, step=9, completed=True, checkpoint=checkpoint)
    )
    operator.say(an_answer(a_world(2)))

    words = agent.finish()
    assert words is not None
    assert words.reason is expected


def test_a_worker_that_is_told_to_end_says_how_far_it_was(
    operator: ScriptedOperator, start: Start, folder: Path, tmp_path: Path
) -> None:
    agent = start()
    operator.say(an_answer(a_world(1)))
    agent.next_world()
    write_progress(folder, TrainerProgress(world_number=1, step=9, checkpoint="step-9.g1"))
    agent.end()

    assert operator.reports[-1].committed == Checkpoint("step-9.g1", 9)
    words = read_last_words((tmp_path / "last-words").read_text())
    assert words is not None
    assert (words.reason, words.step, words.checkpoint) == (Ending.PREEMPTED, 9, "step-9.g1")


def test_a_bug_in_a_thread_is_said_and_costs_nothing_else(
    operator: ScriptedOperator, start: Start, caplog: pytest.LogCaptureFixture, folder: Path
) -> None:
    agent = start()
    operator.say(an_answer(World(**{**vars(a_world(1)), "store": "no address"})))
    assert Waiting(
        lambda: _until(
            lambda: "unexpected error in the agent; the agent continues" in caplog.messages
        )
    ).result()
    operator.say(an_answer(a_world(2)))

    assert agent.next_world() == a_world(2)
