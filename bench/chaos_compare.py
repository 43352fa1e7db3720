"""The lines of a disturbed training compared with an undisturbed one: see bench/chaos.py.

In deterministic mode a line must be the same in every bit. If torch divides the model, the order of
sums depends on the number of copies, so losses, means and sums over weights may differ by rounding,
which is far less than TOLERANCE in 64 bits. The effect of one sample is far greater. Values without
rounding must not differ at all: the sum over the step's samples, and the bits of a part in all
workers that hold it.
"""

import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.chaos_training import Alone, train
from tests.support.processes.trainer_world import Process, run_world

ALONE_SECONDS = 1800.0
TOLERANCE = 1e-9
TOLERANCE_OF_MEANS = 1e-6  # for evaluations in 32 bits, in deterministic mode

Line = dict[str, Any]
Key = tuple[int, int, bool]  # the step, the part of the model, and whether it is an evaluation


@dataclass(frozen=True)
class Compared:
    """The faults found, and the largest difference of numbers that may differ by rounding."""

    wrong: list[str]
    most_apart: float = 0.0


def compare(scratch: Path, shard: int = 1) -> Compared:
    """Find lines that an undisturbed training does not have, or that come twice."""
    found = {file: _lines(file) for file in sorted(scratch.glob("*/*.jsonl"))}
    noted = {_key(line) for lines in found.values() for line in lines}
    if not noted:
        return Compared([])
    evaluated = frozenset(step for step, _, is_mean in noted if is_mean)
    _train_alone(scratch, Alone(max(step for step, _, _ in noted), evaluated), shard)
    alone = [line for file in scratch.glob("alone*.jsonl") for line in _lines(file)]
    return judge(found, {_key(line): line for line in alone}, shard)


def judge(found: Mapping[Path, list[Line]], expected: Mapping[Key, Line], shard: int) -> Compared:
    """Find the faults in lines, by the file of each worker."""
    wrong, most_apart = [*_torn(found)] if shard > 1 else [], 0.0
    tolerance = TOLERANCE if shard > 1 else TOLERANCE_OF_MEANS
    for file, lines in found.items():
        for line in lines:
            apart = _apart(line, expected[_key(line)], shard)
            if apart > tolerance:
                wrong.append(f"{file}: {line}")
            else:
                most_apart = max(most_apart, apart)
        twice = [key for key, count in Counter(map(_key, lines)).items() if count > 1]
        wrong += [f"{file}: twice {key}" for key in twice]
    return Compared(wrong, most_apart)


def _train_alone(scratch: Path, alone: Alone, shard: int) -> None:
    arguments = (train, scratch, alone, 0.0, shard)
    if shard == 1:
        all_ended = [Process({}, *arguments).ended(time.monotonic() + ALONE_SECONDS)]
    else:
        all_ended = run_world(shard, *arguments, patience_seconds=ALONE_SECONDS)
    for ended in all_ended:
        assert not ended.error, ended.said


def _torn(found: Mapping[Path, list[Line]]) -> Iterator[str]:
    """Yield the steps after which workers with the same part had different bits."""
    sums = defaultdict[tuple[Path, Key], set[int]](set)
    for file, lines in found.items():
        for line in lines:
            if "sum" in line:
                sums[file.parent, _key(line)].add(line["sum"])
    for (folder, (step, part, _)), several in sums.items():
        if len(several) > 1:
            yield f"{folder}: after step {step} part {part} is not the same in all that hold it"


def _lines(file: Path) -> list[Line]:
    whole = file.read_text().rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def _key(line: Line) -> Key:
    return line["step"], line.get("part", 0), "mean" in line


def _apart(line: Line, expected: Line, shard: int) -> float:
    """Return the relative difference of two lines; infinite if they must not differ."""
    if "mean" in line:  # a sum over processes, in their order
        return _distance(line["mean"], expected["mean"])
    if shard == 1:
        return 0.0 if line == expected else math.inf
    if line["samples"] != expected["samples"]:
        return math.inf
    pairs = zip(line["weights"], expected["weights"], strict=True)
    return max(_distance(*each) for each in ((line["loss"], expected["loss"]), *pairs))


def _distance(one: float, other: float) -> float:
    return abs(one - other) / max(1.0, abs(other)) if math.isfinite(one) else math.inf
