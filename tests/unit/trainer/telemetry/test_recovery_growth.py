"""A growth is split into what held the survivors up, and what went on meanwhile."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.recovery_growth import phases_of_growth

T = 1_000.0  # when one more is wanted
OLD, OTHER, JOINING_WORKER = 10, 11, 12


def step(at: float, pid: int, size: int) -> dict[str, float]:
    return {"time": T + at, "pid": pid, "size": size}


def note(folder: Path, pid: int, *lines: Mapping[str, object]) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / f"trace-w-{pid}.jsonl").write_text(text)


def group(at: float, pid: int) -> dict[str, object]:
    return {"t": T + at, "mark": "group", "pid": pid}


def test_the_survivor_that_lost_most_says_what_a_growth_took(tmp_path: Path) -> None:
    steps = [step(-0.5, OLD, 2), step(-0.4, OTHER, 2), step(3.0, OLD, 2), step(3.0, OTHER, 2)]
    steps += [step(3.7, OLD, 3), step(3.9, OTHER, 3), step(3.8, JOINING_WORKER, 3)]
    note(tmp_path, OLD, group(-60.0, OLD), group(3.1, OLD))
    note(tmp_path, OTHER, group(-60.0, OTHER), group(3.2, OTHER))
    note(tmp_path, JOINING_WORKER, {"t": T + 3.2, "span": "restore", "seconds": 0.4})
    phases = phases_of_growth(steps, tmp_path, 3, T)
    assert phases == pytest.approx({"formation": 0.2, "transfer": 0.4, "step": 0.7})
