"""The notes of training scripts in their folder: a line of JSON for each step of each rank."""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

Line = dict[str, Any]
Trace = list[Line]


def read_trace(file: Path) -> Trace:
    """All whole lines of a file; none if there is no such file."""
    return whole_lines(file.read_text()) if file.exists() else []


def whole_lines(text: str) -> Trace:
    """Return the notes, without a line that is still being written."""
    return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]


def pids_of(lines: Iterable[Line]) -> frozenset[int]:
    """The processes that have made these steps."""
    return frozenset(line["pid"] for line in lines)


def pid_of(lines: Trace, rank: int) -> int:
    """The process that has made the newest step of a rank."""
    pid: int = next(line["pid"] for line in reversed(lines) if line["rank"] == rank)
    return pid


def steps_of(lines: Iterable[Line], pid: int) -> list[int]:
    """The steps that a process has made."""
    return [line["step"] for line in lines if line["pid"] == pid]


def trains(size: int, *, but: frozenset[int] = frozenset()) -> Callable[[Trace], bool]:
    """Holds once all ranks of a world of that size have made a step, in processes but these."""

    def holds(lines: Trace) -> bool:
        found = {x["rank"] for x in lines if x["size"] == size and x["pid"] not in but}
        return len(found) == size

    return holds


def differences(lines: Iterable[Line], alone: Mapping[int, str]) -> set[tuple[int, int]]:
    """Steps, with the size of the world, whose weights are not those of a training alone."""
    return {
        (line["step"], line["size"])
        for line in lines
        if line["weights"] != alone.get(line["step"], line["weights"])
    }


def print_phases(what: str, after: Trace, job: Mapping[str, Any], at: float) -> None:
    """Print how long it took from an event to another world, and to the first step after it."""
    first = min(line["time"] for line in after)
    formed_at = datetime.fromisoformat(job["status"]["world"]["formedAt"]).timestamp()
    print(f"{what}: world {formed_at - at:.2f} s, first step {first - at:.2f} s")
