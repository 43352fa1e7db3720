"""A process shows another command and environment than it was started with."""

import platform
import subprocess
import sys

import pytest

SHOWS = """
import os, subprocess, sys
from spotrun_trainer.agent.processes import shown_command
if sys.argv[1] == "refused":
    shown_command._SET_MM_MAP = 99  # the kernel knows no such order
shown_command.show([sys.executable, "-u", "train.py", "--name", "ä"], {"RANK": "3", "A": "1=2"})
print(os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("is_refused", [False, True])
def test_others_see_the_command(is_refused: bool) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SHOWS, "refused" if is_refused else "allowed"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"LANG": "C.UTF-8"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    pid = process.stdout.readline().strip()
    shown, environment = _content(pid, "cmdline"), _content(pid, "environ")
    seen = subprocess.run(
        ["ps", "-o", "args=", "-p", pid], stdout=subprocess.PIPE, text=True, check=True
    )
    process.stdin.close()
    process.wait()
    process.stdout.close()

    assert shown == [sys.executable, "-u", "train.py", "--name", "ä"]
    assert seen.stdout.strip() == f"{sys.executable} -u train.py --name ä"
    assert environment == (["LANG=C.UTF-8"] if is_refused else ["RANK=3", "A=1=2"])


GROWS = """
import ctypes
from spotrun_trainer.agent.processes import shown_command
libc = ctypes.CDLL(None)
libc.sbrk.restype = libc.syscall.restype = ctypes.c_void_p
# Just too small for a mapping of their own: they are put at the end of the heap, and move it.
many = {str(number): "x" * 999 for number in range(100)}
for _ in range(5):
    assert shown_command._name_other_memory(b"train\\0", shown_command._joined(
        f"{name}={value}" for name, value in many.items()))
    print(libc.sbrk(0) - libc.syscall(BRK, 0))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of brk is x86-64's")
def test_the_heap_ends_where_the_allocator_has_it() -> None:
    grows = GROWS.replace("BRK", "12")
    shown = subprocess.run(
        [sys.executable, "-c", grows], stdout=subprocess.PIPE, text=True, check=True
    )
    assert shown.stdout.split() == ["0"] * 5


def _content(pid: str, file: str) -> list[str]:
    with open(f"/proc/{pid}/{file}", encoding="utf-8") as content:  # noqa: PTH123 - of the kernel
        return content.read().rstrip("\0").split("\0")
