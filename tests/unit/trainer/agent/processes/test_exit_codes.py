import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from torch.distributed.elastic.agent.server.api import Worker
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from spotrun_trainer.agent.processes.exit_codes import _first, _rank, _words


def failure(exit_code: int, error_file: str = "none", local_rank: int = 0) -> ProcessFailure:
    return ProcessFailure(local_rank=local_rank, pid=7, exitcode=exit_code, error_file=error_file)


@pytest.mark.parametrize(
    ("exit_code", "expected"),
    [
        (3, (3, "rank 5 ended with exit code 3: its log says why")),
        (300, (255, "rank 5 ended with exit code 300: its log says why")),
        (-9, (137, "rank 5 was killed by SIGKILL (often: out of memory)")),
        (-11, (139, "rank 5 was killed by SIGSEGV")),
    ],
)
def test_exit_codes_in_words(exit_code: int, expected: tuple[int, str]) -> None:
    assert _words(failure(exit_code), 5) == expected


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

    said = "rank 5 ended with exit code 1: ArithmeticError: loss is not finite"
    assert _words(failure(1, str(file), local_rank=1), 5) == (1, said)


def test_the_first_to_fail_is_the_cause_and_those_killed_with_it_are_not() -> None:
    failures = [failure(-9, local_rank=0), failure(1, local_rank=1), failure(-9, local_rank=2)]
    assert _first(failures, {1}).local_rank == 1


def test_a_rank_is_that_in_the_world_and_not_that_in_the_worker() -> None:
    group = SimpleNamespace(workers=[Worker(local_rank=n, global_rank=4 + n) for n in (0, 1)])
    assert [_rank(group, local_rank) for local_rank in (0, 1)] == [4, 5]
