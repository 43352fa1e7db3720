import pytest

from spotrun.wire import WRONG_DEVICE
from spotrun_trainer.agent.processes.first_cause import (
    MOST_CHARACTERS,
    cause_in,
    follows_from_a_peer,
)

CRASH = """step 1
Fatal Python error: Segmentation fault

Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait

Current thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/job/train.py", line 14 in step
  File "/job/train.py", line 19 in <module>

Extension modules: numpy.core (total: 1)
"""
ABORT = """terminate called after throwing an instance of 'c10::DistBackendError'
  what():  [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)
Fatal Python error: Aborted

Current thread 0x00007f02 (most recent call first):
  <no Python frame>
"""
RAISED = """[rank1]: Traceback (most recent call last):
[rank1]:   File "/job/train.py", line 9, in <module>
[rank1]:     main()
[rank1]:   File "/job/train.py", line 5, in main
[rank1]:     raise ValueError("no label")
[rank1]: ValueError: no label
"""
CAUGHT = RAISED + "".join(f"step {n}\n" for n in range(20)) + "\x1b[31mdata is gone\x1b[0m\n"


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        ("", ""),
        ("\n \n", ""),
        ("usage: t.py [-h] --data DATA\nt.py: error: required: --data\n",
         "usage: t.py [-h] --data DATA | t.py: error: required: --data"),
        (" 1%|#   | 1/9\r 2%|##  | 2/9\r3%|##  | 3/9", "3%|##  | 3/9"),
        (CRASH, ("Fatal Python error: Segmentation fault at __init__.py:519 in string_at "
         "< train.py:14 in step < train.py:19 in <module>")),
        (ABORT, ("[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7); "
         "Fatal Python error: Aborted")),
        (RAISED, "ValueError: no label at train.py:5 in main < train.py:9 in <module>"),
        (CAUGHT, "step 18 | step 19 | data is gone"),
    ],
    ids=["nothing", "blanks", "argparse", "a bar", "segfault", "abort", "traceback", "caught"],
)  # fmt: skip
def test_the_cause_in_what_was_printed_last(output: str, cause: str) -> None:
    assert cause_in(output) == cause


def test_a_wrong_device_is_told_from_a_peer_that_was_lost() -> None:
    error = f"spotrun_trainer.step.device_check.WrongDeviceError: {WRONG_DEVICE}: GPU-1 of b has"
    cause = cause_in(RAISED.replace("ValueError: no label", error))
    assert WRONG_DEVICE in cause
    assert not follows_from_a_peer(cause)


def test_a_cause_is_short_and_keeps_its_beginning_and_end() -> None:
    said = cause_in("\n".join(["begin" + "x" * 2_000, "y" * 2_000, "z" * 2_000 + "end"]))
    assert len(said) <= MOST_CHARACTERS
    assert said.startswith("begin")
    assert said.endswith("end")


@pytest.mark.parametrize(
    ("message", "follows"),
    [
        (("RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection "
         "closed by peer [127.0.0.1]:1"), True),
        ("RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 5000ms", True),
        ("DistBackendError: NCCL error: remote process exited or there was a network error", True),
        ("[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)", True),
        ("DistNetworkError: failed to recv, got 0 bytes. Connection was likely closed.", True),
        (("DistNetworkError: The client socket has timed out after 5000ms while trying to connect "
         "to (host, 1)"), False),
        ("ValueError: no label", False),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", False),  # of a download
        ("OSError: [Errno 98] Address already in use", False),
        ("RuntimeError: NCCL error: unhandled cuda error: out of memory", False),
        ("was killed by SIGKILL (often: out of memory)", False),
    ],
)  # fmt: skip
def test_who_noticed_a_peers_end(message: str, *, follows: bool) -> None:
    assert follows_from_a_peer(f"rank 0 ended with exit code 1: {message}") is follows
