"""Processes that are begun ahead: when, for whom, and that they are in nobody's way."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import (
    SubprocessHandler,
)

from spotrun_trainer.agent.processes.kill import kill_sessions
from spotrun_trainer.agent.processes.warm import interpreter as warm_interpreter
from spotrun_trainer.agent.processes.warm import pool as module
from spotrun_trainer.agent.processes.warm import waiting as waiting_module
from spotrun_trainer.agent.processes.warm.pool import (
    BEGUN_AHEAD,
    LOOK_SECONDS,
    SETTLED_SECONDS,
    Interpreters,
    begin_ahead,
)
from spotrun_trainer.agent.processes.warm.waiting import ROOM_BYTES, VARIABLE
from spotrun_trainer.telemetry import timeline
from spotrun_trainer.telemetry.trace import Trace
from tests.unit.trainer.agent.scripts import command_of, until_ready

PATIENCE_SECONDS = 60
PLENTY = 10 * ROOM_BYTES


@dataclass
class Kept:
    """Interpreters that import nothing; a test sets their clock and the room that is left."""

    folder: Path | None = None
    now: float = 0.0
    room: float = PLENTY

    def __post_init__(self) -> None:
        self.interpreters = Interpreters(
            Trace(self.folder), room=lambda: self.room, clock=lambda: self.now, imported=()
        )

    def look(self, seconds: float = LOOK_SECONDS, *, are_of_use: bool = True) -> frozenset[int]:
        """Let time pass, look, and return who waits."""
        self.now += seconds
        self.interpreters.look(are_of_use=are_of_use)
        return self.interpreters.pids

    def until(self, number: int) -> frozenset[int]:
        """Look until so many wait; each begins when the one before it is ready."""
        while len(self.interpreters.pids) < number:
            self.until_ready()
            self.look()
        return self.interpreters.pids

    def until_ready(self) -> None:
        """Wait for the one that imports."""
        until_ready(self.interpreters)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    one = Kept(tmp_path / "trace")
    yield one
    one.interpreters.close()


def test_output_goes_where_torchrun_wants_it(kept: Kept, tmp_path: Path) -> None:
    kept.look()
    script = "import sys; print('out'); print('err', file=sys.stderr)"
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        process = kept.interpreters.start(
            command_of(tmp_path, script), os.environ, out.fileno(), err.fileno()
        )
    assert process is not None
    assert process.wait() == 0
    assert [(tmp_path / name).read_text() for name in ("out", "err")] == ["out\n", "err\n"]


def test_as_many_wait_as_a_world_has_processes_here(kept: Kept) -> None:
    first = kept.look()
    kept.interpreters.follow(3)
    three = kept.until(3)
    assert first < three
    assert kept.look() == three


def test_each_that_is_ready_is_in_the_trace(kept: Kept, tmp_path: Path) -> None:
    kept.interpreters.follow(2)
    kept.until(2)
    (file,) = (tmp_path / "trace").iterdir()
    marks = [line["mark"] for line in timeline.read(file)]
    assert marks == ["started", BEGUN_AHEAD]  # the second began when the first was ready


def test_processes_that_start_are_not_disturbed(kept: Kept, tmp_path: Path) -> None:
    kept.look()
    process = kept.interpreters.start(command_of(tmp_path, "pass"), os.environ, 1, 2)
    assert process is not None
    process.wait()
    assert kept.look(SETTLED_SECONDS - 0.1) == frozenset()
    assert len(kept.look(0.1)) == 1


@pytest.mark.parametrize(
    ("number", "rooms", "then"),
    [
        (0, 1.9, 0),
        (0, 2.1, 1),
        (1, 0.9, 0),
        (1, 3.9, 1),
        (1, 4.1, 2),
        (2, 1.9, 0),
        (2, 2.1, 2),
    ],
)
def test_each_needs_room(kept: Kept, number: int, rooms: float, then: int) -> None:
    kept.interpreters.follow(number)
    kept.until(number)
    kept.until_ready()
    kept.interpreters.follow(3)
    kept.room = rooms * ROOM_BYTES
    assert len(kept.look()) == then


def test_a_training_that_changes_worlds_in_its_processes_needs_none(kept: Kept) -> None:
    (waiting,) = kept.look()
    assert kept.look(are_of_use=False) == frozenset()
    with pytest.raises(ProcessLookupError):
        os.kill(waiting, 0)


def test_one_that_ended_by_itself_is_the_last(kept: Kept) -> None:
    (waiting,) = kept.look()
    os.kill(waiting, 9)
    os.waitid(os.P_PID, waiting, os.WEXITED | os.WNOWAIT)
    assert kept.look() == kept.look() == frozenset()


def test_with_one_that_has_ended_the_process_starts_as_ever(kept: Kept, tmp_path: Path) -> None:
    (waiting,) = kept.look()
    os.kill(waiting, 9)
    os.waitid(os.P_PID, waiting, os.WEXITED | os.WNOWAIT)
    assert kept.interpreters.start(command_of(tmp_path, "pass"), os.environ, 1, 2) is None


@pytest.mark.parametrize("is_ready", [True, False])
def test_one_that_does_not_answer_is_ended_and_the_process_starts_as_ever(
    kept: Kept, is_ready: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is about to end: it has been killed, and frees its memory first."""
    (waiting,) = kept.look()
    if is_ready:
        kept.until_ready()
        kept.look()
    os.kill(waiting, signal.SIGSTOP)
    monkeypatch.setattr(waiting_module, "ANSWER_SECONDS", 0.1)
    assert kept.interpreters.start(command_of(tmp_path, "pass"), os.environ, 1, 2) is None
    with pytest.raises(ProcessLookupError):
        os.kill(waiting, 0)


def test_one_that_imports_is_not_waited_for_where_siblings_are_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "gate")
    (tmp_path / "takes_long.py").write_text(f"open({str(tmp_path / 'gate')!r}).read()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    interpreters = Interpreters(Trace(None), room=lambda: PLENTY, imported=["takes_long"])
    interpreters.look()
    command = command_of(tmp_path, "pass")
    interpreters.follow(2)
    assert interpreters.start(command, os.environ, 1, 2) is None
    (waiting,) = interpreters.pids
    (tmp_path / "gate").open("w").close()
    interpreters.follow(1)
    process = interpreters.start(command, os.environ, 1, 2)
    assert process is not None
    assert (process.pid, process.wait()) == (waiting, 0)


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "-u", "-m", "package.training"],
        [sys.executable, "-u", "archive.zip"],
        [sys.executable, "script.py"],
        ["/usr/bin/numactl", "--cpunodebind=0", sys.executable, "-u", "script.py"],
        ["training"],
    ],
    ids=" ".join,
)
def test_what_is_no_script_starts_as_ever(kept: Kept, command: list[str]) -> None:
    (waiting,) = kept.look()
    assert kept.interpreters.start(command, os.environ, 1, 2) is None
    assert not kept.look(SETTLED_SECONDS), "for its processes will all be such"
    with pytest.raises(ProcessLookupError):
        os.kill(waiting, 0)


def test_who_is_to_see_other_gpus_starts_as_ever(kept: Kept, tmp_path: Path) -> None:
    kept.look()
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "1"}
    assert kept.interpreters.start(command_of(tmp_path, "pass"), environment, 1, 2) is None
    assert not kept.look(SETTLED_SECONDS)


def test_those_that_wait_outlive_the_processes_that_train(kept: Kept) -> None:
    (waiting,) = kept.look()
    kill_sessions(but=kept.interpreters.pids)
    assert kept.look() == {waiting}
    kill_sessions()
    assert os.waitid(os.P_PID, waiting, os.WEXITED | os.WNOWAIT) is not None


def test_nobody_waits_for_a_torchrun_that_is_gone(tmp_path: Path) -> None:
    program = """
        import os
        from spotrun_trainer.agent.processes.warm.pool import Interpreters
        from spotrun_trainer.telemetry.trace import Trace
        interpreters = Interpreters(Trace(None), imported=())
        interpreters.look()
        print(*interpreters.pids, flush=True)
        os.kill(os.getpid(), 9)
    """
    torchrun = subprocess.run(
        command_of(tmp_path, program), stdout=subprocess.PIPE, check=False, timeout=60
    )
    with suppress(ProcessLookupError):  # gone already
        waiting = os.pidfd_open(int(torchrun.stdout))
        has_ended = wait([waiting], PATIENCE_SECONDS)
        os.close(waiting)
        assert has_ended


def test_the_kernel_ends_them_first(kept: Kept) -> None:
    (waiting,) = kept.look()
    kept.until_ready()
    assert Path(f"/proc/{waiting}/oom_score_adj").read_text() == "1000\n"


@pytest.mark.parametrize(
    ("groups", "score"),
    [
        ({}, "1000"),
        ({"pod/container": "0", "pod": "0"}, "1000"),
        ({"pod/container": "1", "pod": "0"}, "7"),
        ({"pod/container": "0", "pod": "1"}, "7"),
        ({"elsewhere": "1"}, "1000"),
    ],
)
def test_but_not_where_it_would_end_the_container_with_them(
    groups: dict[str, str], score: str, tmp_path: Path
) -> None:
    """A kubelet sets memory.oom.group in the cgroups of containers, where they have version 2."""
    own = tmp_path / "proc/self"
    own.mkdir(parents=True)
    (own / "oom_score_adj").write_text("7")
    (own / "cgroup").write_text("0::/pod/container\n")
    for cgroup, is_group in groups.items():
        folder = tmp_path / "sys/fs/cgroup" / cgroup
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.oom.group").write_text(f"{is_group}\n")

    assert warm_interpreter._let_die_first(tmp_path) == ("7" if score == "1000" else None)
    assert (own / "oom_score_adj").read_text() == score


@pytest.mark.parametrize(("variable", "number"), [("0", 0), ("", 1), ("1", 1)])
def test_who_wants_none_has_none(
    variable: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SubprocessHandler, "_popen", SubprocessHandler._popen)
    monkeypatch.setattr(module, "IMPORTED", ())
    interpreters = begin_ahead({VARIABLE: variable} if variable else {}, Trace(None))
    assert len(interpreters.pids) == number
    interpreters.close()
