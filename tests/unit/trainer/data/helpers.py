"""Sources for tests with loader workers, and how to see what becomes of those."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from spotrun_trainer.data.order.sharding import Block
from spotrun_trainer.data.source import Source, open_source

Opened = Callable[..., Source]


def open_for_tests(dataset: Any, num_workers: int = 1, **more: Any) -> Source:
    return open_source(
        dataset, microbatch=2, seed=1, shuffle=False, num_workers=num_workers, **more
    )


def take(source: Source, start: int, microbatches: int = 1) -> list[int]:
    batches: Iterator[Any] = source.microbatches(Block(start, microbatches, 2))
    return [int(index) for batch in batches for index in batch]


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"not within 20 s: {what}"
        time.sleep(0.005)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def workers() -> list[int]:
    return [child.pid or 0 for child in multiprocessing.active_children()]
