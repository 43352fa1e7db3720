"""What torchrun is told; the agent behind it says what a test wants."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.elastic.rendezvous import rendezvous_handler_registry
from torch.distributed.elastic.rendezvous.api import RendezvousParameters
from torch.distributed.elastic.utils.store import barrier

from spotrun.wire import Ending, LastWords, Notice, World, read_last_words
from spotrun_trainer.agent import rendezvous_handler as handlers
from spotrun_trainer.agent.processes.notice_signal import NoticeSignal
from spotrun_trainer.agent.processes.stage_start import StageStart
from spotrun_trainer.agent.processes.stop import Stopping
from spotrun_trainer.agent.processes.warm.pool import Interpreters
from spotrun_trainer.agent.rendezvous_handler import SpotrunRendezvous
from spotrun_trainer.telemetry import timeline
from spotrun_trainer.telemetry.trace import Trace
from tests.unit.trainer.agent.builders import a_world
from tests.unit.trainer.agent.test_settings import ENV

DEPARTED = LastWords(Ending.DEPARTED, message="the job has succeeded")
COMPLETED = LastWords(Ending.COMPLETED)


class PlayedAgent:
    """Stands in for the agent; keeps what it was asked."""

    def __init__(self, *found: World | LastWords) -> None:
        self.found = list(found)
        self.stops = self.saves = False
        self.given_notice: Notice | None = None
        self.asked: list[Any] = []

    def next_world(self) -> World | LastWords:
        return self.found.pop(0)

    def must_stop(self) -> bool:
        return self.stops

    @property
    def notice(self) -> Notice | None:
        return self.given_notice

    def may_save(self) -> bool:
        return self.saves

    def is_urgent(self) -> bool:
        return False

    def may_restart(self) -> bool:
        return False

    def fail_unless_known(self) -> None:
        self.asked.append("fail unless known")

    def finish(self) -> LastWords:
        self.asked.append("finish")
        return COMPLETED

    def end(self, words: LastWords | None = None) -> None:
        self.asked.append(words)


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTRUN_WORLD_NUMBER", "")


def handler_of(
    *found: World | LastWords, traces: Path | None = None
) -> tuple[SpotrunRendezvous, PlayedAgent]:
    agent = PlayedAgent(*found)
    trace = Trace(traces)
    made = SpotrunRendezvous(
        agent,  # type: ignore[arg-type]
        "uid",
        trace,
        Interpreters(trace),
        Stopping(0.0),
        notice_signal=NoticeSignal(None),
        stage_start=StageStart({}),
    )
    return made, agent


def test_torchrun_finds_the_handler_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    made = handler_of()[0]
    monkeypatch.setattr(handlers, "make_handler", lambda _: made)
    parameters = RendezvousParameters("spotrun", "sync:9443", "uid", 1, 4)

    assert rendezvous_handler_registry.create_handler(parameters) is made
    assert (made.get_backend(), made.get_run_id(), made.use_agent_store) == ("spotrun", "uid", True)


def test_outside_of_a_worker_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPOTRUN_DIR", raising=False)
    parameters = RendezvousParameters("spotrun", "sync:9443", "uid", 1, 4)
    with pytest.raises(ValueError, match="SPOTRUN_DIR is not set"):
        rendezvous_handler_registry.create_handler(parameters)


def test_a_folder_that_cannot_be_made_ends_the_worker_with_words_that_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, volume = tmp_path / "words", tmp_path / "volume"
    volume.write_text("no directory")
    place = {
        "SPOTRUN_CHECKPOINT": f"{volume}/team/job",
        "SPOTRUN_CHECKPOINT_KEEP": "3",
        "SPOTRUN_TERMINATION_LOG": str(words),
    }
    for name, value in {**ENV, **place}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(handlers, "Agent", lambda _: pytest.fail("it begins to speak"))
    with pytest.raises(SystemExit) as end:
        handlers.make_handler(RendezvousParameters("spotrun", "sync:9443", "uid", 1, 4))

    said = read_last_words(words.read_text())
    assert said is not None
    assert (end.value.code, said.reason, said.exit_code) == (1, Ending.FAILED, 1)
    assert said.message.startswith(f"checkpoints cannot be written to {volume}/team/job by user")


def test_the_folder_is_there_before_any_script_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "team" / "job"
    there: list[bool] = []

    class Reached(Exception):  # noqa: N818
        """The agent is made."""

    def agent(_: object) -> PlayedAgent:
        there.append(folder.is_dir())
        raise Reached

    place = {"SPOTRUN_CHECKPOINT": str(folder), "SPOTRUN_CHECKPOINT_KEEP": "3"}
    for name, value in {**ENV, **place}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(handlers, "Agent", agent)
    with pytest.raises(Reached):
        handlers.make_handler(RendezvousParameters("spotrun", "sync:9443", "uid", 1, 4))
    assert there == [True]


def test_ranks_are_those_of_workers_and_the_store_is_the_worlds() -> None:
    world = a_world(7, rank=16, size=32, processes=8, store="[fd00::1]:29400")
    info = handler_of(world)[0].next_rendezvous()

    assert (info.rank, info.world_size) == (2, 4)
    meets = info.bootstrap_store_info
    assert meets is not None
    assert (meets.master_addr, meets.master_port) == ("fd00::1", 29400)
    assert os.environ["SPOTRUN_WORLD_NUMBER"] == "7"


def test_torchruns_own_barrier_at_the_end_is_passed_at_once() -> None:
    info = handler_of(a_world(1, size=100))[0].next_rendezvous()
    barrier(
        store=info.store,
        world_size=info.world_size,
        key_prefix="torchelastic/agent/terminal_state",
        barrier_timeout=1,
    )


@pytest.mark.parametrize("exit_code", [None, 1])
def test_a_worker_that_is_not_needed_ends_with_its_words(exit_code: int | None) -> None:
    words = LastWords(Ending.DEPARTED, exit_code=exit_code)
    handler, agent = handler_of(words)
    with pytest.raises(SystemExit) as end:
        _torchrun(handler, handler.next_rendezvous)

    assert end.value.code == (exit_code or 0)
    assert agent.asked[-1] == words


def test_processes_that_ended_unasked_have_failed_and_those_stopped_have_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed: list[str] = []
    monkeypatch.setattr(handlers, "kill_sessions", lambda but: killed.append("killed"))
    handler, agent = handler_of(a_world(1), a_world(2), a_world(3))
    handler.next_rendezvous()
    agent.asked.clear()
    assert handler.num_nodes_waiting() == 0
    agent.stops = True
    assert handler.num_nodes_waiting() == 1
    handler.next_rendezvous()
    assert (killed, agent.asked) == (["killed"], [])
    handler.next_rendezvous()
    assert agent.asked == ["fail unless known"]


def test_the_moment_at_which_processes_are_stopped_is_in_the_trace(tmp_path: Path) -> None:
    handler, agent = handler_of(traces=tmp_path)
    agent.stops = True
    handler.num_nodes_waiting()

    lines = [line for file in tmp_path.iterdir() for line in timeline.read(file)]
    assert [line["mark"] for line in lines] == ["started", "killed"]


def test_a_good_end_waits_for_the_others() -> None:
    handler, agent = handler_of()
    assert handler.shutdown()
    assert agent.asked == ["finish", COMPLETED]


def test_an_error_of_torchrun_is_a_failure() -> None:
    handler, agent = handler_of()
    with pytest.raises(FileNotFoundError, match="nowhere"):
        _torchrun(handler, Path("nowhere").stat)

    why = "torchrun ended with FileNotFoundError: [Errno 2] No such file or directory: 'nowhere'"
    assert agent.asked == [LastWords(Ending.FAILED, exit_code=1, message=why)]


def _torchrun(handler: SpotrunRendezvous, work: Callable[[], object]) -> None:
    """As it goes about its work and its end."""
    try:
        work()
    finally:
        handler.shutdown()


def test_processes_that_may_save_are_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "kill_sessions", lambda **_: pytest.fail("it is killed"))
    handler, agent = handler_of()
    agent.stops = agent.saves = True
    assert handler.num_nodes_waiting() == 1
