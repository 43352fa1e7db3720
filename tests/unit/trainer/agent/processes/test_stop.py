"""Scripts that are stopped for a change that was planned, in real processes."""

import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from spotrun_trainer.agent.processes.sessions import has_ended

STOPPER = """
    import subprocess, sys, time
    from spotrun_trainer.agent.processes.stop import Stopping

    script = subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE, start_new_session=True)
    script.stdout.readline()  # it is ready
    began = time.monotonic()
    Stopping(float(sys.argv[1])).stop()
    print(time.monotonic() - began, script.wait())
"""
ON_SIGTERM = """
    import pathlib, signal, sys, time
    def save(*_):
        time.sleep(0.5)
        pathlib.Path(sys.argv[1]).write_text("saved")
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
"""
IN_PLACE = """
    import pathlib, sys, time
    with open(sys.argv[1], "wb") as file:
        for number in range(20):
            file.write(bytes(1 << 20))
            file.flush()
            if not number:
                print("ready", flush=True)
            time.sleep(0.05)
    while True:
        time.sleep(0.01)
"""
LOGS = """
    import sys, time
    file = open(sys.argv[1], "w")
    print("ready", flush=True)
    while True:
        print("loss", file=file, flush=True)
        time.sleep(0.01)
"""
DEAF = """
    import os, pathlib, signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: None)
    pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
"""
WITH_LOADER = """
    import pathlib, signal, subprocess, sys, time
    loader = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    def save(*_):
        time.sleep(0.2)
        pathlib.Path(sys.argv[1]).write_text(str(loader.poll()))
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
"""


@pytest.fixture
def stopped(tmp_path: Path) -> Any:
    def stop(
        script: str, *, grace_seconds: float = 30.0, through_shell: bool = False, under: str = ""
    ) -> tuple[float, int]:
        """Start a script and stop it; returns the seconds that took, and its exit code."""
        file, stopper = tmp_path / "script.py", tmp_path / "stopper.py"
        file.write_text(textwrap.dedent(script))
        stopper.write_text(textwrap.dedent(STOPPER))
        command = [sys.executable, str(file), str(tmp_path / "saved")]
        if through_shell:
            command = ["bash", "-c", f"{under} {' '.join(command)}; true"]
        ran = subprocess.run(
            [sys.executable, stopper, str(grace_seconds), *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert ran.returncode == 0, ran.stderr
        seconds, code = ran.stdout.split()
        return float(seconds), int(code)

    return stop


def test_a_script_that_saves_when_it_is_told_has_the_time_to(stopped: Any, tmp_path: Path) -> None:
    seconds, code = stopped(ON_SIGTERM)
    assert ((tmp_path / "saved").read_text(), code) == ("saved", 0)
    assert 0.5 <= seconds < 5, "it is waited for, and no longer"


def test_one_under_a_shell_that_does_not_care_saves_as_well(stopped: Any, tmp_path: Path) -> None:
    stopped(ON_SIGTERM, through_shell=True)
    assert (tmp_path / "saved").read_text() == "saved"


@pytest.mark.parametrize(
    "under",
    [
        pytest.param("timeout 50", id="in a process group of its own"),
        pytest.param("setsid --wait", id="in a session of its own"),
    ],
)
def test_one_that_the_shell_started_apart_saves_as_well(
    stopped: Any, tmp_path: Path, under: str
) -> None:
    seconds, _ = stopped(ON_SIGTERM, through_shell=True, under=under)
    assert (tmp_path / "saved").read_text() == "saved"
    assert seconds < 5, "it is waited for, and no longer"


@pytest.mark.parametrize("under", ["timeout 50", "setsid --wait"])
def test_one_apart_that_does_not_end_is_killed_when_its_time_is_over(
    stopped: Any, tmp_path: Path, under: str
) -> None:
    stopped(DEAF, grace_seconds=0.5, through_shell=True, under=under)
    pid = int((tmp_path / "saved").read_text())
    end = time.monotonic() + 5
    while not has_ended(pid):  # the kill of a process that is nobody's child here
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_it_has_started_lives_while_it_saves(stopped: Any, tmp_path: Path) -> None:
    stopped(WITH_LOADER)
    assert (tmp_path / "saved").read_text() == "None"


def test_a_script_is_not_ended_in_the_middle_of_a_file_that_it_writes(
    stopped: Any, tmp_path: Path
) -> None:
    seconds, code = stopped(IN_PLACE)
    assert ((tmp_path / "saved").stat().st_size, code) == (20 << 20, -15)
    assert seconds < 5


def test_a_log_that_is_kept_open_holds_up_for_a_moment_only(stopped: Any) -> None:
    seconds, code = stopped(LOGS)
    assert code == -15
    assert seconds < 5


def test_a_script_that_does_nothing_of_its_own_ends_at_once(stopped: Any) -> None:
    seconds, code = stopped("import time; print('ready', flush=True); time.sleep(60)")
    assert code == -15
    assert seconds < 1


def test_one_that_does_not_end_is_killed_when_its_time_is_over(stopped: Any) -> None:
    seconds, code = stopped(DEAF, grace_seconds=0.5)
    assert code == -9
    assert 0.5 <= seconds < 3


def test_a_file_between_agent_and_process_holds_nothing_up(
    stopped: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOTRUN_DIR", str(tmp_path))
    seconds, code = stopped(LOGS)
    assert code == -15
    assert seconds < 1.5
