"""A line of JSON for each step: no library, and every program can read it."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from spotrun_trainer.telemetry.trackers.tracker import Logged

FILE = "metrics.jsonl"
_OURS = ("step", "time")


class JsonLines:
    """Steps in a file, each once: a repeated step replaces the earlier one."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / FILE
        self._file: TextIO | None = None

    def begin(self, step: int) -> None:
        """Drop the lines of this step and of later ones."""
        self.close()
        if self._path.exists():
            shortened = self._path.with_suffix(".part")
            with shortened.open("w", encoding="utf-8") as file:
                file.writelines(_before(step, self._path))
            shortened.replace(self._path)
        self._file = self._path.open("a", encoding="utf-8", buffering=1)

    def record(self, step: int, time: float, values: Mapping[str, Logged]) -> None:
        """Write a line."""
        assert self._file is not None, "it has begun"
        named = {
            f"{name}_" if name in _OURS else name: _plain(value) for name, value in values.items()
        }
        line = json.dumps({"step": step, "time": round(time, 3), **named}, allow_nan=False)
        self._file.write(f"{line}\n")

    def flush(self) -> None:
        """Do nothing: each line is written at once, as the node may be lost at any time."""

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _before(step: int, path: Path) -> Iterator[str]:
    """Yield the lines of earlier steps; one that was cut off by a full disk is dropped."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                is_earlier = json.loads(line)["step"] < step
            except (ValueError, KeyError, TypeError):
                continue
            if is_earlier:
                yield f"{line.rstrip()}\n"


def _plain(value: Logged) -> Logged:
    """Return a value that JSON has: it has no NaN and no infinity."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
