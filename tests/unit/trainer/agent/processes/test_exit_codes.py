import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from torch.distributed.elastic.agent.server.api import Worker
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from spotrun_trainer.agent.processes.exit_codes import Death, _first, _rank
from spotrun_trainer.agent.processes.shared_memory import SharedMemory


def failure(exit_code: int, error_file: str = "none", local_rank: int = 0) -> ProcessFailure:
    return ProcessFailure(local_rank=local_rank, pid=7, exitcode=exit_code, error_file=error_file)


@pytest.mark.parametrize(
    ("exit_code", "output", "expected"),
    [
        (3, None, (3, "rank 5 ended with exit code 3: its log says why")),
        (3, "", (3, "rank 5 ended with exit code 3: it printed nothing")),
        (3, "no data\n", (3, "rank 5 ended with exit code 3: no data")),
        (300, None, (255, "rank 5 ended with exit code 300: its log says why")),
        (-9, None, (137, "rank 5 was killed by SIGKILL (often: out of memory)")),
        (-9, "step 7\n", (137, "rank 5 was killed by SIGKILL (often: out of memory): step 7")),
        (-11, "", (139, "rank 5 was killed by SIGSEGV")),
    ],
)
def test_exit_codes_in_words(exit_code: int, output: str | None, expected: tuple[int, str]) -> None:
    death = Death(failure(exit_code), 5, output)
    assert (death.code, death.words) == expected


@pytest.mark.parametrize(
    ("kernel_killed", "hint"),
    [(None, "often: out of memory"), (True, "out of memory: the"), (False, "not for memory: the")],
)
def test_what_the_kernel_counted_is_said_of_a_kill(*, kernel_killed: bool, hint: str) -> None:
    said = Death(failure(-9), 0, "", kernel_killed).words
    assert said.startswith(f"rank 0 was killed by SIGKILL ({hint}")


@pytest.mark.parametrize(
    "message",
    [
        "ArithmeticError: loss is not finite",
        {"message": "ArithmeticError: loss is not finite", "extraInfo": {"timestamp": "1"}},
    ],
)
def test_what_a_recorded_script_says_is_handed_on(tmp_path: Path, message: object) -> None:
    """Of a script whose main function is decorated with torch's @record."""
    file = tmp_path / "error.json"
    file.write_text(json.dumps({"message": message}))

    death = Death(failure(1, str(file), local_rank=1), 5, "some log")
    said = "rank 5 ended with exit code 1: ArithmeticError: loss is not finite"
    assert (death.code, death.words) == (1, said)


def test_of_shared_memory_that_ran_out_it_is_said_before_all_else(tmp_path: Path) -> None:
    file = tmp_path / "error.json"
    file.write_text(json.dumps({"message": "ConnectionResetError: [Errno 104] reset by peer"}))
    printed = "ERROR: Unexpected bus error. This might be caused by insufficient shared memory\n"
    said = Death(failure(1, str(file)), 5, printed, shared_memory=SharedMemory(1, 10**9)).words
    assert said == (
        "rank 5 ended with exit code 1: shared memory is full (now 0 of 1000 MB are used): mount "
        "an emptyDir with medium Memory at /dev/shm, or use fewer loader workers or smaller "
        "batches: ConnectionResetError: [Errno 104] reset by peer"
    )


def test_the_first_to_fail_is_the_cause_and_those_killed_with_it_are_not() -> None:
    failures = [failure(-9, local_rank=0), failure(1, local_rank=1), failure(-9, local_rank=2)]
    deaths = [Death(one, one.local_rank, "") for one in failures]
    assert _first(deaths, {1}).rank == 1


def test_of_two_that_have_failed_the_one_that_noticed_the_other_is_not_the_cause() -> None:
    """Both in one second, as torch's files tell it."""
    noticed = Death(failure(1), 0, "RuntimeError: [gloo/pair.cc:5] Connection closed by peer")
    raised = Death(failure(1, local_rank=1), 1, "ValueError: no label")
    assert _first([noticed, raised], {0, 1}) is raised


def test_a_rank_is_that_in_the_world_and_not_that_in_the_worker() -> None:
    group = SimpleNamespace(workers=[Worker(local_rank=n, global_rank=4 + n) for n in (0, 1)])
    assert [_rank(group, local_rank) for local_rank in (0, 1)] == [4, 5]
