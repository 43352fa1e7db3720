"""Scripts whose processes were begun ahead: they cannot tell."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from spotrun_trainer.agent.processes.warm.pool import Interpreters
from spotrun_trainer.agent.processes.warm.waiting import IMPORTED, Process
from spotrun_trainer.telemetry.trace import Trace
from tests.unit.trainer.agent.scripts import command_of, until_ready

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
    print(open("/proc/self/oom_score_adj").read(), type(__builtins__))
"""
SPAWNS = """
    import multiprocessing
    from dataclasses import dataclass
    @dataclass
    class Sample:
        x: int
    if __name__ == "__main__":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map_async(Sample, [1, 2]).get(timeout=30))
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
SETS_AFTER_NUMPY = SETS.replace("import os\n", "import os, sys, numpy.linalg as linalg\n").replace(
    '"begins"', '"begins", "torch" in sys.modules, sys.modules["numpy.linalg"] is linalg'
)
SETS_LATE = """
    import os, torch
    print("begins")
    os.environ["OMP_NUM_THREADS"] = "1"
    import numpy, spotrun_trainer
    print(torch.get_num_threads(), os.getpid() == os.getsid(0))
"""
ENDS = """
    class Cycle:
        def __init__(self):
            self.itself = self
        def __del__(self):
            print("collected")
    kept = Cycle()
"""
KEPT = """
    import gc, torch
    print(gc.isenabled(), gc.get_freeze_count() > 100_000, len(gc.get_objects()) > 10_000)
"""
SCRIPTS = {
    "itself": ITSELF,
    "spawns": SPAWNS,
    "fails": FAILS,
    "leaves cycles": ENDS,
    "exits": "import sys; sys.exit(3)",
    "exits with words": "raise SystemExit('enough')",
    "is no Python": "this is no Python",
    "is killed": "import os; os.kill(os.getpid(), 9)",
}


@dataclass(frozen=True)
class Outcome:
    """All that can be seen of a process."""

    code: int
    output: str
    errors: str

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_cannot_tell(script: str, tmp_path: Path) -> None:
    assert _ahead(tmp_path, script) == _as_ever(tmp_path, script)


@pytest.mark.parametrize("script", [SETS, SETS_AFTER_NUMPY], ids=["at once", "after NumPy"])
def test_a_script_that_sets_what_torch_reads_begins_anew(script: str, tmp_path: Path) -> None:
    found, usual = _ahead(tmp_path, script), _as_ever(tmp_path, script)

    assert found.lines == [usual.lines[0], *usual.lines]
    assert usual.lines[1:] == ["1 True"]


def test_what_was_imported_ahead_is_never_collected_but_what_triton_made(tmp_path: Path) -> None:
    """Triton tells on stderr of all that is left at the end; `itself` above sees that it is not."""
    assert _ahead(tmp_path, KEPT) == Outcome(0, "True True True\n", "")


def test_what_is_set_after_torch_was_imported_is_set_as_ever(tmp_path: Path) -> None:
    assert _ahead(tmp_path, SETS_LATE) == _as_ever(tmp_path, SETS_LATE)


def test_what_other_libraries_read_is_set_as_ever(tmp_path: Path) -> None:
    script = SETS.replace("OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM")

    assert _ahead(tmp_path, script).lines == ["begins", "2 True"]


def _ahead(folder: Path, script: str) -> Outcome:
    """In an interpreter that has imported what the script does."""
    imported = IMPORTED if "torch" in script else ("multiprocessing",)
    interpreters = Interpreters(Trace(None), imported=imported)
    interpreters.look()
    until_ready(interpreters)

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
        process = start(command_of(folder, script), environment, out.fileno(), err.fileno())
        code = process.wait(timeout=120)
    return Outcome(code, *(file.read_text(errors="surrogateescape") for file in files))
