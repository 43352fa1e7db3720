"""A profile on request: who records, how long, and what is said; a real profiler of torch."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from spotrun.wire import MOST_PROFILED_STEPS, Profile
from spotrun_trainer.telemetry import profiling
from spotrun_trainer.telemetry.profiling import Profiling

ORDER = Profile("2026-03-01T12:00:00Z", 2)
CPU = torch.device("cpu")


class Process:
    """A process that trains, and gets orders."""

    def __init__(self, *, order: Profile | None = None, has_place: bool = True) -> None:
        self.order = order
        self.said: list[str] = []
        self.files: dict[str, bytes] = {}
        keep: Callable[[str, bytes], str] | None = self._keep if has_place else None
        self.profiling = Profiling(lambda: self.order, keep, device=CPU, tell=self.said.append)

    def train(self, first: int, last: int, *, worker: int = 0, is_first: bool = True) -> None:
        for number in range(first, last + 1):
            self.profiling.begin_step(number, worker=worker, is_first=is_first)
            torch.ones(8, 8) @ torch.ones(8, 8)

    def _keep(self, name: str, content: bytes) -> str:
        self.files[name] = content
        return f"/checkpoints/{name}"


def test_the_next_steps_are_recorded_once() -> None:
    process = Process()
    process.train(1, 3)
    process.order = ORDER
    process.train(4, 9)
    process.profiling.close(9)
    assert process.said[0] == "profile 2026-03-01T12:00:00Z: rank 0 records steps 4 to 5"
    assert any("aten::mm" in line for line in process.said)
    assert process.said[-1] == "profile 2026-03-01T12:00:00Z: done"
    [(name, content)] = process.files.items()
    assert name == "profile-step-4-to-5-rank-0.json.gz"
    events = json.loads(gzip.decompress(content))["traceEvents"]
    assert sum(one.get("name") == "aten::mm" for one in events) == 2


@pytest.mark.parametrize(
    ("process", "worker", "is_first"),
    [
        pytest.param(Process(order=ORDER), 0, True, id="an order from before it began"),
        pytest.param(Process(), 1, True, id="another rank"),
        pytest.param(Process(), 0, False, id="another process of the worker"),
    ],
)
def test_an_order_for_others_is_not_followed(process: Process, worker: int, is_first: bool) -> None:
    process.order = ORDER
    process.train(1, 5, worker=worker, is_first=is_first)
    process.profiling.close(5)
    assert (process.said, process.files) == ([], {})


def test_a_training_that_ends_early_keeps_what_there_is_and_without_a_place_the_table() -> None:
    process = Process(has_place=False)
    process.order = replace(ORDER, steps=MOST_PROFILED_STEPS)
    process.train(1, 2)
    process.profiling.close(2)
    assert "no place for checkpoints" in process.said[-2]
    assert process.said[-1].endswith("done")


def test_a_profiler_that_fails_fails_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise RuntimeError("it is in use\nby the script")

    monkeypatch.setattr(profiling, "profile", refuse)
    process = Process()
    process.order = ORDER
    process.train(1, 5)
    assert process.said == ["profile 2026-03-01T12:00:00Z: failed: it is in use"]


def test_a_place_that_is_full_is_said() -> None:
    process = Process()
    process.profiling = Profiling(
        lambda: process.order, _refuse, device=CPU, tell=process.said.append
    )
    process.order = ORDER
    process.train(1, 3)
    process.profiling.close(3)
    assert process.said[-1].endswith("failed: no room")


def _refuse(_: str, __: bytes) -> str:
    raise OSError("no room")
