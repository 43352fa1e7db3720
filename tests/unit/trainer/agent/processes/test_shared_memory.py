from pathlib import Path

import pytest

from spotrun_trainer.agent.processes.shared_memory import SharedMemory, advice, measure

FREE, FULL = SharedMemory(0, 64), SharedMemory(60, 64)
DIED = "rank 0 ended with exit code 1: RuntimeError: DataLoader worker (pid(s) 7) "
RESET = "rank 0 ended with exit code 1: ConnectionResetError: [Errno 104] Connection reset by peer"
PRINTED = (
    "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
    "shared memory (shm).\n"
)
WRITE = "RuntimeError: unable to write to file </torch_81_16_0>: No space left on device (28)"


@pytest.mark.parametrize(
    ("said", "output", "memory", "is_told"),
    [
        (DIED + "is killed by signal: Bus error. It is possible that dataloader's workers are out "
         "of shared memory.", "", FREE, True),
        (DIED + "exited unexpectedly", PRINTED, None, True),
        (RESET, PRINTED, FREE, True),
        (WRITE, "", FREE, True),
        ("rank 0 was killed by SIGBUS", "", FULL, True),
        (DIED + "exited unexpectedly", "Fatal Python error: Bus error", FULL, True),
        ("rank 0 was killed by SIGBUS", "", FREE, False),
        ("rank 0 was killed by SIGBUS", "", None, False),
        (RESET, "", FULL, False),
        (DIED + "exited unexpectedly", "", FULL, False),
        ("OSError: [Errno 28] No space left on device: 'out/model.pt'", "", FULL, False),
    ],
    ids=[
        "torch says so", "a worker printed it", "the connection to a worker was reset",
        "a file of torch in it", "a bus error and no room", "the same of a worker",
        "a bus error with room", "a bus error, and nothing is measured", "a reset alone",
        "a dead worker alone", "a full disk",
    ],
)  # fmt: skip
def test_shared_memory_that_ran_out_is_recognised(
    said: str, output: str, memory: SharedMemory | None, *, is_told: bool
) -> None:
    assert advice(said, output, memory).startswith("shared memory is full") is is_told


def test_what_is_in_use_is_measured_where_there_is_such_memory(tmp_path: Path) -> None:
    found = measure(str(tmp_path))
    assert found is not None
    assert 0 < found.used < found.size
    assert measure(str(tmp_path / "none")) is None
