import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.claim import ClaimError, claim, end

HOLD = """
import sys, time
from pathlib import Path
from demo.claim import claim
with claim(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_demo_is_told_of_the_first(tmp_path: Path) -> None:
    file = tmp_path / "state" / "demo.pid"
    words = rf"a demo runs already \(pid {os.getpid()}\): end it with `make demo-down`"
    with claim(file), pytest.raises(ClaimError, match=words), claim(file):
        pass


def test_a_claim_leaves_nothing_and_can_be_made_again(tmp_path: Path) -> None:
    file = tmp_path / "demo.pid"
    for _ in range(2):
        with claim(file):
            assert f"{os.getpid()}\n" == file.read_text()
        assert not file.exists()


def test_a_place_where_no_claim_can_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = "file/state/demo.pid cannot be written: Not a directory. Start it in a folder that"
    with pytest.raises(ClaimError, match=words), claim(tmp_path / "file/state/demo.pid"):
        pass


def test_there_may_be_no_demo_to_end(tmp_path: Path) -> None:
    assert not end(tmp_path / "demo.pid")


def test_what_a_killed_demo_left_is_no_demo(tmp_path: Path) -> None:
    file = tmp_path / "demo.pid"
    file.write_text("1\n")  # the pid may be anybody's by now
    assert not end(file)
    assert not file.exists()


def test_a_demo_is_ended_and_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "demo.pid"
    with _holder(file) as holder:
        assert end(file)
        assert holder.wait(5) != 0


def test_a_demo_that_does_not_end_is_named(tmp_path: Path) -> None:
    file = tmp_path / "demo.pid"
    with _holder(file, "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)") as holder:
        with pytest.raises(ClaimError, match=rf"pid {holder.pid}.*kill it"):
            end(file, timeout_seconds=0.05)
        holder.kill()


def _holder(file: Path, first: str = "") -> subprocess.Popen[str]:
    program = [sys.executable, "-c", first + HOLD, str(file)]
    root = Path(__file__).parents[3]
    holder = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=root)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder
