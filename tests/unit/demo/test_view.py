from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.console import Console

from demo.scene import Node, Scene, Step, Worker
from demo.view import clock, doing, live, state
from tests.unit.demo.scenes import TRAINING, A, B, C, with_worker

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LEAVING = replace(B, is_leaving=True, ends_at=NOW + timedelta(seconds=95))


def drawn(scene: Scene, diary: list[tuple[float, str]] | None = None) -> str:
    console = Console(file=StringIO(), width=120, legacy_windows=False)
    with console.capture() as capture:
        console.print(live(scene, diary or [], 65.0, NOW))
    return capture.get()


def row(text: str, first: str) -> list[str]:
    """The words of the line that begins with this one."""
    lines = (line.strip(" │").split() for line in text.splitlines())
    return next(words for words in lines if words and words[0] == first)


def test_the_picture_shows_the_job_and_its_nodes() -> None:
    text = drawn(replace(TRAINING, step=Step(500, 3.2154), nodes=(A, LEAVING, C)))
    assert "spotrun demo  1:05" in text
    assert row(text, "job") == ["job", "Running", "Training", "3", "workers", "train"]
    assert row(text, "world") == ["world", "1", "workers", "2,", "0", "and", "1"]
    assert row(text, "step")[:6] == ["step", "500", "of", "1000", "loss", "3.2154"]
    assert row(text, "cost") == ["cost", "not", "metered", "yet"]
    assert " ".join(row(text, "spot-a-1")) == "spot-a-1 spot us-east-1a 0.31 ready 0 trains, rank 1"
    assert "spot-b-1 spot us-east-1b 0.29 leaves in 95 s 1 trains, rank 2" in " ".join(
        row(text, "spot-b-1")
    )


def test_workers_without_a_node_are_shown_below() -> None:
    scene = replace(TRAINING, nodes=(A, C))
    text = drawn(with_worker(scene, Worker(3, "job-x-3", "Pending")))
    assert " ".join(row(text, "spot-b-1")) == "spot-b-1 (gone) 1 trains, rank 2"
    assert " ".join(row(text, "-")) == "- 3 waits for a node"


def test_the_diary_shows_the_newest_entries() -> None:
    text = drawn(TRAINING, [(float(number), f"entry {number}.") for number in range(70)])
    assert "entry 60." not in text
    assert "1:09" in text
    assert "entry 69." in text


def test_an_empty_scene_can_be_drawn() -> None:
    assert "no worker trains" in drawn(Scene(0.0))


@pytest.mark.parametrize(
    ("worker", "nodes", "expected"),
    [
        (Worker(0, "p", "Pending"), (), "waits for a node"),
        (Worker(0, "p", "Pending", "spot-a-1"), (A,), "starts"),
        (Worker(0, "p", "Running", "spot-a-1"), (A,), "gets ready to train"),
        (Worker(0, "p", "Running", "spot-a-1", rank=2), (A,), "trains, rank 2"),
        (
            Worker(0, "p", "Running", "spot-b-1", rank=2),
            (LEAVING,),
            "trains, rank 2; to be replaced",
        ),
        (Worker(0, "p", "Running", "spot-a-1", is_removed=True), (A,), "is being removed"),
        (Worker(0, "p", "Succeeded", "spot-a-1", rank=2), (A,), "has ended"),
    ],
)
def test_what_a_worker_does(worker: Worker, nodes: tuple[Node, ...], expected: str) -> None:
    assert expected == doing(worker, Scene(0.0, nodes=nodes))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (A, "ready"),
        (replace(A, is_ready=False), "not ready"),
        (LEAVING, "leaves in 95 s"),
        (replace(LEAVING, ends_at=NOW - timedelta(seconds=3)), "leaves in 0 s"),
        (replace(LEAVING, ends_at=None), "leaves"),
    ],
)
def test_how_a_node_is(node: Node, expected: str) -> None:
    assert expected == state(node, NOW)


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, "0:00"), (65.9, "1:05"), (600, "10:00")])
def test_times_are_minutes_and_seconds(seconds: float, expected: str) -> None:
    assert expected == clock(seconds)
