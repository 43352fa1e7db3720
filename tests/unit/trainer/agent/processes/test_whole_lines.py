"""Lines of several processes stay whole in the log that they share."""

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from spotrun_trainer.agent.processes.whole_lines import HELD_SECONDS, LONGEST_LINE, WholeLines

AGENT = """
import sys
from spotrun_trainer.agent.processes import output_tail
from torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import (
    SubprocessHandler,
)
output_tail.watch_output({})
program = "import sys\\nfor _ in range(3000): print('a line of', sys.argv[1])"
both = [
    SubprocessHandler(sys.executable, ("-uc", program, str(rank)), {}, None, None, rank, None)
    for rank in (0, 1)
]
for one in both:
    one.proc.wait()
"""


@dataclass
class Log:
    """A file that a process writes into."""

    path: Path
    fileno: int

    def text(self) -> bytes:
        return self.path.read_bytes()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with (tmp_path / "log").open("wb") as file:
        yield Log(tmp_path / "log", file.fileno())


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([b"one\n"], b"one\n"),
        ([b"one"], b""),
        ([b"one", b"\n"], b"one\n"),
        ([b"one\ntwo"], b"one\n"),
        ([b"one\ntwo", b" more\nthree\nfo"], b"one\ntwo more\nthree\n"),
        ([b"x" * (LONGEST_LINE - 1), b"yz"], b"x" * (LONGEST_LINE - 1) + b"yz"),
        ([b""], b""),
    ],
)
def test_a_line_is_written_with_its_end(parts: list[bytes], expected: bytes, log: Log) -> None:
    lines = WholeLines(log.fileno)
    for part in parts:
        lines.add(part)
    assert log.text() == expected
    lines.write_rest()
    assert log.text() == b"".join(parts), "nothing is lost"


def test_a_part_waits_only_so_long(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    lines = WholeLines(log.fileno)
    lines.add(b"50 %")
    lines.write_late()
    assert (lines.is_held, log.text()) == (True, b"")
    now += HELD_SECONDS
    lines.write_late()
    assert (lines.is_held, log.text()) == (False, b"50 %")


def test_lines_of_two_processes_do_not_mix() -> None:
    ran = subprocess.run([sys.executable, "-c", AGENT], capture_output=True, text=True, check=True)
    assert sorted(ran.stdout.splitlines()) == [
        f"a line of {rank}" for rank in (0, 1) for _ in range(3000)
    ]
