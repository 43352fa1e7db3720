import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spotrun_trainer.hooks.python_path import show_fatal_errors, with_site
from spotrun_trainer.hooks.uncaught import words_of

RAISES = """
def step():
    raise ArithmeticError("loss is not finite")

def main():
    step()

main()
"""


LOSES_A_LOADERS_WORKER = """
import os, signal
import torch
from torch.utils.data import DataLoader, TensorDataset

batches = iter(DataLoader(TensorDataset(torch.zeros(100, 1)), batch_size=1, num_workers=1))
next(batches)

def get(timeout):
    os.kill(batches._workers[0].pid, signal.SIGKILL)
    raise ConnectionResetError(104, "Connection reset by peer")

batches._data_queue.get = get
next(batches)
"""


def noted_of(content: str, folder: Path) -> str:
    """Run a script that fails; returns what is noted of that for torchrun."""
    script, noted = folder / "train.py", folder / "error.json"
    script.write_text(content)
    ours = {"SPOTRUN_DIR": str(folder), "TORCHELASTIC_ERROR_FILE": str(noted)}
    environment = {**os.environ, "PYTHONPATH": with_site(os.environ), **ours}
    ran = subprocess.run(
        [sys.executable, script],
        env=environment, start_new_session=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 1, ran.stderr
    said: str = json.loads(noted.read_text())["message"]["message"]
    return said


def test_a_loaders_worker_that_was_killed_is_told_where_its_connection_ended_first(
    tmp_path: Path,
) -> None:
    said = noted_of(LOSES_A_LOADERS_WORKER, tmp_path)
    assert re.match(
        r"RuntimeError: DataLoader worker \(pid \d+\) is killed by signal: Killed", said
    )
    assert said.endswith(", after ConnectionResetError: [Errno 104] Connection reset by peer")


TOLD_AMID = """
import os, signal

def tell(*_):
    raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed")

def told_amid(pid, getsid=os.getsid):
    os.getsid = getsid
    os.kill(os.getpid(), signal.SIGCHLD)
    return getsid(pid)

signal.signal(signal.SIGCHLD, tell)
os.getsid = told_amid
raise ConnectionResetError(104, "Connection reset by peer")
"""


def test_a_loaders_worker_that_ends_while_an_error_is_noted_hides_none_of_both(
    tmp_path: Path,
) -> None:
    said = noted_of(TOLD_AMID, tmp_path)
    assert said.startswith("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed")
    assert said.endswith(", after ConnectionResetError: [Errno 104] Connection reset by peer")


@pytest.mark.parametrize("starts_session", [True, False])
def test_what_ends_a_script_is_noted_for_torchrun(tmp_path: Path, *, starts_session: bool) -> None:
    script, noted = tmp_path / "train.py", tmp_path / "errors" / "error.json"
    script.write_text(RAISES)
    ours = {"SPOTRUN_DIR": str(tmp_path), "TORCHELASTIC_ERROR_FILE": str(noted)}
    environment = {**os.environ, "PYTHONPATH": with_site(os.environ), **ours}
    ran = subprocess.run(
        [sys.executable, script],
        env=environment,
        start_new_session=starts_session,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == "ArithmeticError: loss is not finite"
    assert noted.exists() is starts_session, "what a script has started is not what failed"
    if starts_session:
        said = json.loads(noted.read_text())["message"]["message"]
        where = "train.py:3 in step < train.py:6 in main < train.py:8 in <module>"
        assert said == f"ArithmeticError: loss is not finite at {where}"


def test_the_end_of_a_long_exception_is_kept_and_so_is_the_first_of_several() -> None:
    error = RuntimeError("Caught KeyError in worker.\n" + "x" * 900 + "\nKeyError: 7")
    error.__cause__ = FileNotFoundError("tokens.bin")
    said = words_of(error, None)
    assert said.startswith("RuntimeError: Caught KeyError in worker. xxx")
    assert said.endswith("xxx KeyError: 7, after FileNotFoundError: tokens.bin")


@pytest.mark.parametrize(("before", "after"), [({}, "1"), ({"PYTHONFAULTHANDLER": ""}, "")])
def test_fatal_errors_print_a_stack_unless_somebody_has_said_otherwise(
    before: dict[str, str], after: str
) -> None:
    show_fatal_errors(before)
    assert before == {"PYTHONFAULTHANDLER": after}


def test_of_the_frames_of_libraries_only_the_innermost_is_told(tmp_path: Path) -> None:
    library, script = tmp_path / "site-packages" / "lib.py", tmp_path / "train.py"
    library.parent.mkdir()
    library.write_text("def a(): b()\ndef b(): c()\ndef c(): 1 / 0\n")
    script.write_text("def main():\n    a()\n")
    names: dict[str, Callable[[], None]] = {}
    for file in (library, script):
        exec(compile(file.read_text(), str(file), "exec"), names)  # noqa: S102 - the lines above
    with pytest.raises(ZeroDivisionError) as found:
        names["main"]()
    said = words_of(found.value, found.tb)
    assert said.startswith(
        "ZeroDivisionError: division by zero at lib.py:3 in c < train.py:2 in main <"
    )
