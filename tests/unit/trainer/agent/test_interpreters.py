"""Processes that were begun ahead: a script cannot tell, and nobody else is in their way."""

import os
import select
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import (
    SubprocessHandler,
)

from spotrun_trainer.agent import interpreters as module
from spotrun_trainer.agent.interpreters import (
    BEGUN_AHEAD,
    LOOK_SECONDS,
    ROOM_BYTES,
    SETTLED_SECONDS,
    VARIABLE,
    Interpreters,
    Process,
    begin_ahead,
)
from spotrun_trainer.agent.sessions import kill_sessions
from spotrun_trainer.telemetry import timeline
from spotrun_trainer.telemetry.trace import Trace

PATIENCE_SECONDS = 60
PLENTY = 10 * ROOM_BYTES
ITSELF = """
    import importlib.util, os, sys
    print("torch" in sys.modules, "numpy" in sys.modules, importlib.util.find_spec("torch").name)
    import torch.nn.functional as functional
    import torch, numpy, spotrun_trainer
    print(torch.nn.functional is functional, type(torch.__spec__.loader), torch.__spec__.origin)
    print(torch.get_num_threads(), numpy.arange(3), spotrun_trainer.Run)
    sides: int = 2
    print(sys.argv, __name__, __file__, __spec__, __package__, sorted(globals()), __annotations__)
    print(os.getcwd(), sys.path, sys.flags, sys.stdout.write_through, __import__("__main__").sides)
    print({name: os.environ[name] for name in os.environ if name.startswith("A_")})
    print(os.getsid(0) == os.getpid(), sorted(os.listdir("/proc/self/fd")), sys.orig_argv[0])
    print(open("/proc/self/oom_score_adj").read())
"""
SPAWNS = """
    import multiprocessing
    def twice(x):
        return 2 * x
    if __name__ == "__main__":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(twice, [1, 2]))
"""
FAILS = """
    def fail():
        raise ValueError("no such data")
    fail()
"""
SETS = """
    import os
    print("begins")
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch
    print(torch.get_num_threads(), os.getpid() == os.getsid(0))
"""
SAYS_HOW = """
    import os
    from pathlib import Path
    ahead = "spotrun_trainer.interpreter" in Path("/proc/self/cmdline").read_text()
    print("begun ahead" if ahead else "begun now", os.environ["WORLD_SIZE"])
"""
TORCHRUN = """
    import sys
    from torch.distributed.run import main
    from spotrun_trainer.agent.interpreters import begin_ahead
    from spotrun_trainer.telemetry.trace import Trace
    begin_ahead({}, Trace(None))
    _, script, logs = sys.argv
    main(["--standalone", "--nproc-per-node=2", "--redirects=3", f"--log-dir={logs}", script])
"""
SCRIPTS = {
    "itself": ITSELF,
    "spawns": SPAWNS,
    "fails": FAILS,
    "exits": "import sys; sys.exit(3)",
    "exits with words": "raise SystemExit('enough')",
    "is no Python": "this is no Python",
    "is killed": "import os; os.kill(os.getpid(), 9)",
}


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
        while len(self.look()) < number:
            newest = self.interpreters._waiting[-1].control
            assert select.select([newest], [], [], PATIENCE_SECONDS)[0], "it imports nothing"
        return self.interpreters.pids


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    one = Kept(tmp_path / "trace")
    yield one
    one.interpreters.close()


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_cannot_tell(script: str, tmp_path: Path) -> None:
    assert _ahead(tmp_path, script) == _as_ever(tmp_path, script)


def test_a_script_that_sets_what_torch_reads_begins_anew(tmp_path: Path) -> None:
    found, usual = _ahead(tmp_path, SETS), _as_ever(tmp_path, SETS)

    assert found.lines == ["begins", *usual.lines]
    assert usual.lines == ["begins", "1 True"]


def test_what_other_libraries_read_is_set_as_ever(tmp_path: Path) -> None:
    script = SETS.replace("OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM")

    assert _ahead(tmp_path, script).lines == ["begins", "2 True"]


def test_output_goes_where_torchrun_wants_it(kept: Kept, tmp_path: Path) -> None:
    kept.look()
    script = "import sys; print('out'); print('err', file=sys.stderr)"
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        process = kept.interpreters.start(
            _command(tmp_path, script), os.environ, out.fileno(), err.fileno()
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
    process = kept.interpreters.start(_command(tmp_path, "pass"), os.environ, 1, 2)
    assert process is not None
    process.wait()
    assert kept.look(SETTLED_SECONDS - 0.1) == frozenset()
    assert len(kept.look(0.1)) == 1


@pytest.mark.parametrize(
    ("room", "number"), [(ROOM_BYTES * 0.9, 0), (ROOM_BYTES * 1.9, 1), (ROOM_BYTES * 2.1, 2)]
)
def test_they_go_where_memory_is_short(kept: Kept, room: float, number: int) -> None:
    kept.until(1)
    kept.interpreters.follow(2)
    kept.room = room
    if number == 2:
        kept.until(2)
    assert len(kept.look()) == number


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
    assert kept.interpreters.start(_command(tmp_path, "pass"), os.environ, 1, 2) is None


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
    waiting = kept.look()
    assert kept.interpreters.start(command, os.environ, 1, 2) is None
    assert kept.interpreters.pids == waiting


def test_who_is_to_see_other_gpus_starts_as_ever(kept: Kept, tmp_path: Path) -> None:
    kept.look()
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "1"}
    assert kept.interpreters.start(_command(tmp_path, "pass"), environment, 1, 2) is None


def test_those_that_wait_outlive_the_processes_that_train(kept: Kept) -> None:
    (waiting,) = kept.look()
    kill_sessions(but=kept.interpreters.pids)
    assert kept.look() == {waiting}
    kill_sessions()
    assert os.waitid(os.P_PID, waiting, os.WEXITED | os.WNOWAIT) is not None


def test_nobody_waits_for_a_torchrun_that_is_gone(tmp_path: Path) -> None:
    program = """
        import os
        from spotrun_trainer.agent.interpreters import Interpreters
        from spotrun_trainer.telemetry.trace import Trace
        interpreters = Interpreters(Trace(None), imported=())
        interpreters.look()
        print(*interpreters.pids, flush=True)
        os.kill(os.getpid(), 9)
    """
    torchrun = subprocess.run(
        _command(tmp_path, program), stdout=subprocess.PIPE, check=False, timeout=60
    )
    with suppress(ProcessLookupError):  # gone already
        waiting = os.pidfd_open(int(torchrun.stdout))
        has_ended, _, _ = select.select([waiting], [], [], PATIENCE_SECONDS)
        os.close(waiting)
        assert has_ended


def test_the_kernel_ends_them_first(kept: Kept) -> None:
    kept.interpreters.follow(2)
    first, _ = sorted(kept.until(2))
    assert Path(f"/proc/{first}/oom_score_adj").read_text() == "1000\n"


def test_torchrun_starts_its_processes_in_those_that_wait(tmp_path: Path) -> None:
    script, logs = tmp_path / "says_how.py", tmp_path / "logs"
    script.write_text(textwrap.dedent(SAYS_HOW))
    torchrun = [sys.executable, "-c", textwrap.dedent(TORCHRUN), str(script), str(logs)]
    subprocess.run(torchrun, check=True, timeout=120)

    said = sorted(file.read_text() for file in logs.rglob("stdout.log"))
    assert said == ["begun ahead 2\n", "begun now 2\n"]


@pytest.mark.parametrize(("variable", "number"), [("0", 0), ("", 1), ("1", 1)])
def test_who_wants_none_has_none(
    variable: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SubprocessHandler, "_popen", SubprocessHandler._popen)
    monkeypatch.setattr(module, "IMPORTED", ())
    interpreters = begin_ahead({VARIABLE: variable} if variable else {}, Trace(None))
    assert len(interpreters.pids) == number
    interpreters.close()


@dataclass(frozen=True)
class Outcome:
    """All that can be seen of a process."""

    code: int
    output: str
    errors: str

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()


def _command(folder: Path, script: str) -> list[str]:
    file = folder / "script.py"
    file.write_text(textwrap.dedent(script))
    return [sys.executable, "-u", str(file), "--size=2", "ä"]


def _ahead(folder: Path, script: str) -> Outcome:
    """In an interpreter that has imported what the script does."""
    imported = module.IMPORTED if "torch" in script else ()
    interpreters = Interpreters(Trace(None), imported=imported)
    interpreters.look()

    def start(command: list[str], environment: dict[str, str], *outputs: int) -> Process:
        process = interpreters.start(command, environment, *outputs)
        assert process is not None
        return process

    return _outcome(start, folder, script)


def _as_ever(folder: Path, script: str) -> Outcome:
    def start(command: list[str], environment: dict[str, str], out: int, err: int) -> Process:
        return subprocess.Popen(
            command, env=environment, stdout=out, stderr=err, start_new_session=True
        )

    return _outcome(start, folder, script)


def _outcome(start: Callable[..., Process], folder: Path, script: str) -> Outcome:
    environment = {**os.environ, "A_VALUE": "ä\udcff", "OMP_NUM_THREADS": "2"}
    files = [folder / "out", folder / "err"]
    with files[0].open("wb") as out, files[1].open("wb") as err:
        process = start(_command(folder, script), environment, out.fileno(), err.fileno())
        code = process.wait(timeout=120)
    return Outcome(code, *(file.read_text(errors="surrogateescape") for file in files))
