"""Columns of a large matrix, read from a checkpoint with the whole matrix: time and memory.

    column_cut_seconds     from the manifests to the last byte, without hashes
    column_cut_extra_mib   peak resident memory during the read, minus the memory before

A separate process reads every second column block, from the page cache.

Run as `.venv/bin/python bench/column_cut.py [--quick] [--mib 1024] [--columns 64] [--parts 2]`.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from bench.operator_bench import say
from devcluster.argument_types import how_many
from spotrun_trainer.checkpoint import Checkpoints
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.reading.ranges import read_ranges
from spotrun_trainer.checkpoint.format.reading.saved_parts import manifests_of, part_of
from spotrun_trainer.checkpoint.places.directory import Place, open_place
from spotrun_trainer.parallel.division import Box, Division
from spotrun_trainer.state.flatten import Flat

NAME, PATH = "step-1.g1", "held/x"


def main() -> None:
    """Measure, in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="16 MiB")
    parser.add_argument("--mib", type=how_many, default=1024)
    parser.add_argument("--columns", type=how_many, default=64)
    parser.add_argument("--parts", type=how_many, default=2)
    parser.add_argument("--read", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    shape = (
        (16 if arguments.quick else arguments.mib) * 2**18 // arguments.columns,
        arguments.columns,
    )
    if arguments.read:
        read(arguments.read, shape, arguments.parts)
        return
    with tempfile.TemporaryDirectory() as place:
        checkpoints = Checkpoints(place, keep=1)
        flat = Flat({PATH: numbers(shape)}, {"held": {"x": {"$tensor": PATH}}})
        checkpoints.save(NAME, flat, rank=0, size=1, extra={})
        checkpoints.wait(600)
        checkpoints.close()
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--read", place], check=True)


def numbers(shape: tuple[int, int]) -> torch.Tensor:
    """Return a matrix whose elements show their position, as far as 32 bits allow."""
    return torch.arange(shape[0] * shape[1], dtype=torch.int32).reshape(shape)


def read(folder: str, shape: tuple[int, int], parts: int) -> None:
    """Read the last part of the columns, and print time and memory."""
    place, name = Place(open_place(folder)), Name.parse(NAME)
    box = Box.whole(shape).chunk(1, parts - 1, parts)
    part = torch.zeros(box.shape, dtype=torch.int32)
    manifests = manifests_of(place, name)
    saved = [part_of(place, name, manifests, 0)]
    before = kib("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    started = time.monotonic()
    here = {PATH: Division(shape, {"tensor": 1}, box)}
    read_ranges(place, name, saved, Flat({PATH: part}, {}), here)
    took, most = time.monotonic() - started, kib("VmHWM")
    first = box.offsets[1]
    for row in (0, shape[0] // 2, shape[0] - 1):
        expected = torch.arange(row * shape[1] + first, (row + 1) * shape[1], dtype=torch.int32)
        if not torch.equal(part[row], expected):
            raise RuntimeError(f"row {row} differs")
    facts = {"part_mib": part.nbytes >> 20, "row_bytes": box.shape[1] * 4}
    say("column_cut_seconds", took, "s", **facts)
    say("column_cut_extra_mib", (most - before) / 1024, "MiB", **facts)


def kib(what: str) -> int:
    """Return a value of this process's memory from the kernel."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1])
    raise RuntimeError(what)


if __name__ == "__main__":
    main()
