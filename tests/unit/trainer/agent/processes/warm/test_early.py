"""The interpreter that is begun before torchrun: for whom, and what becomes of it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spotrun_trainer.agent.processes.warm.early import adopt, begin_early, runs_one_script
from spotrun_trainer.agent.processes.warm.pool import Interpreters
from spotrun_trainer.agent.processes.warm.waiting import ROOM_BYTES, VARIABLE
from spotrun_trainer.telemetry.trace import Trace
from tests.unit.trainer.agent.scripts import command_of

OPERATORS = ("--rdzv-backend=spotrun", "--nproc-per-node=1", "--monitor-interval=0.1")


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    for one in adopt(os.environ):
        one.end()


def begin(environment: dict[str, str], room: float = 3 * ROOM_BYTES) -> None:
    begin_early(environment, room=lambda: room, imported=())


@pytest.mark.parametrize(
    "arguments",
    [
        (*OPERATORS, "train.py"),
        (*OPERATORS, "train.py", "-m", "--nproc-per-node=2"),  # the script's own
        ("--rdzv_backend=spotrun", "/workspace/train.py", "--epochs", "3"),
        (*OPERATORS, "--nproc_per_node=4", "--nproc_per_node=1", "train.py"),
    ],
    ids=" ".join,
)
def test_one_process_of_a_script_is_begun_early(arguments: tuple[str, ...]) -> None:
    assert runs_one_script(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--standalone", "train.py"),
        (*OPERATORS, "-m", "package.train"),
        (*OPERATORS, "-m", "train.py"),
        (*OPERATORS, "--no-python", "train.py"),
        (*OPERATORS, "--nproc-per-node=8", "train.py"),
        (*OPERATORS, "--nproc-per-node=gpu", "train.py"),
        (*OPERATORS, "--nproc-per-node", "8", "train.py"),
        (*OPERATORS, "train"),
        OPERATORS,
        (),
    ],
    ids=" ".join,
)
def test_what_else_torchrun_runs_is_not(arguments: tuple[str, ...]) -> None:
    assert not runs_one_script(arguments)


def test_the_agent_takes_it_over_and_it_becomes_the_script(tmp_path: Path) -> None:
    begin(dict(os.environ))
    agents = {"SPOTRUN_WORLD_NUMBER": "1", "TORCH_ELASTIC_WORKER_IDENTICAL": "1"}
    interpreters = Interpreters(Trace(None), waiting=adopt(os.environ | agents))
    (early,) = interpreters.pids
    interpreters.look()
    assert interpreters.pids == {early}, "no other is begun beside it"

    with (tmp_path / "out").open("wb") as out:
        command = command_of(tmp_path, "import os; print(os.getpid())")
        process = interpreters.start(command, os.environ, out.fileno(), out.fileno())
    assert process is not None
    assert process.wait() == 0
    assert int((tmp_path / "out").read_text()) == early == process.pid


def test_one_that_has_seen_other_variables_is_ended() -> None:
    begin(dict(os.environ) | {"OMP_NUM_THREADS": "7"})
    assert adopt(dict(os.environ) | {"OMP_NUM_THREADS": "8"}) == []


@pytest.mark.parametrize(
    ("variable", "room"), [("0", 3 * ROOM_BYTES), ("1", ROOM_BYTES)], ids=["unwanted", "no room"]
)
def test_none_is_begun(variable: str, room: float) -> None:
    environment = dict(os.environ) | {VARIABLE: variable}
    begin(environment, room)
    assert adopt(environment) == []


def test_it_is_begun_without_torch_in_this_process() -> None:
    """What comes before it is what everything waits for."""
    program = """
import sys
import spotrun_trainer.agent.launch.torchrun
print("torch" in sys.modules)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert said.stdout == b"False\n"
