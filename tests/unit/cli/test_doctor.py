"""`kubectl tjob doctor`: which sizes hold the batch, and as it is typed."""

from pathlib import Path

import pytest

from spotrun.cli.doctor.sizes import advise
from spotrun.cli.kubectl import main
from tests.support.jobs.builders import a_job

EXAMPLE = Path(__file__).parents[3] / "examples/plain-ddp.yaml"


@pytest.mark.parametrize(
    ("workers", "processes", "batch", "change"),
    [
        ({"min": 2, "max": 2}, 1, None, ""),
        ({"min": 1, "max": 4}, 1, None, "min: 3\nmax: 3"),
        ({"min": 1, "max": 4}, 1, 12, ""),
        ({"min": 1, "max": 4}, 1, 16, "sizes: [1, 2, 4]"),
        ({"min": 1, "max": 8}, 2, 16, "sizes: [1, 2, 4, 8]"),
        ({"min": 2, "max": 8, "sizes": (2, 6, 8)}, 1, 16, "sizes: [2, 8]"),
        ({"min": 3, "max": 5}, 1, 8, "min: 4\nmax: 4"),
        ({"min": 3, "max": 5}, 1, 7, ""),
        ({"min": 2, "max": 6, "perReplica": 2}, 1, 8, "sizes: [2, 4]"),
    ],
    ids=[
        "one size anyway",
        "no batch is known: the size that is wanted",
        "every size divides it",
        "those that divide it",
        "several processes per worker",
        "among the sizes that are allowed",
        "one size divides it",
        "none does",
        "whole copies of the model",
    ],
)
def test_sizes_that_hold_the_batch(
    workers: dict[str, object], processes: int, batch: int | None, change: str
) -> None:
    spec = a_job(3, **workers).snapshot().spec.workers
    assert advise(spec, processes, batch).change == change


def test_a_proposal_is_printed_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "-f", str(EXAMPLE), "--batch", "64"]) == 1
    assert "spec:\n  workers:\n    sizes: [" in capsys.readouterr().out


def test_a_change_that_was_seen_is_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.yaml"
    change = (
        "status:\n  batchChange: {time: '2026-01-02T03:04:05Z', fromWorkers: 3, toWorkers: 2,"
        " message: it shrank}\n"
    )
    job.write_text(EXAMPLE.read_text() + change)
    assert main(["doctor", "-f", str(job)]) == 1
    assert "This has happened already: it shrank" in capsys.readouterr().out


def test_nothing_to_propose_is_said_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "-f", str(EXAMPLE), "--batch", "5040"]) == 0
    assert "every size" in capsys.readouterr().out
