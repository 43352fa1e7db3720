"""The memory and the speed of `spotrun export`, compared with `cp` of the same checkpoint.

A checkpoint of four processes, in which one tensor has a quarter of the bytes, is exported in each
format by a separate process, in turns with `cp`. Each is done when all data is on the disk
(`fsync`). `export_extra_mb`: the peak memory of that process minus its memory after the imports.
`export_vs_cp`: its duration divided by that of `cp`; hashes are compared first only for
`safetensors_verified`.

Run as `.venv/bin/python bench/export.py [--quick] [--gigabytes 1] [--repeats 3] [--place FOLDER]`.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from bench.operator_bench import say
from devcluster.argument_types import existing_folder, how_many
from spotrun_trainer.checkpoint import Checkpoints
from spotrun_trainer.checkpoint.foreign.writing import dcp as _  # noqa: F401 - imported before
from spotrun_trainer.checkpoint.tools.command_line import main as spotrun
from spotrun_trainer.state.tracked import Tracked

RANKS = 4
SMALL_MB = 4  # of most tensors
WAYS = {
    "safetensors": ["--format", "safetensors", "--no-verify"],
    "safetensors_verified": ["--format", "safetensors"],
    "hf": ["--format", "hf", "--shard-size", "200MB", "--no-verify"],
    "torch": ["--format", "torch", "--no-verify"],
    "dcp": ["--format", "dcp", "--no-verify"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small checkpoint, once")
    parser.add_argument("--gigabytes", type=how_many, default=1)
    parser.add_argument("--repeats", type=how_many, default=3)
    parser.add_argument(
        "--place", type=existing_folder, help="a directory on the disk to be measured"
    )
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        export(*arguments.child)
        return
    megabytes, repeats, ways = 1000 * arguments.gigabytes, arguments.repeats, list(WAYS)
    if arguments.quick:
        megabytes, repeats, ways = 64, 1, ["safetensors", "torch"]
    with tempfile.TemporaryDirectory(dir=arguments.place) as folder:
        measure(Path(folder), megabytes, repeats, ways)


def measure(folder: Path, megabytes: int, repeats: int, ways: list[str]) -> None:
    checkpoint = folder / "checkpoints"
    make(checkpoint, megabytes)
    copy(checkpoint, folder / "copy")  # fills the page cache
    cp, found = list[float](), {way: list[dict[str, float]]() for way in ways}
    for _repeat in range(repeats):
        cp.append(copy(checkpoint, folder / "copy"))
        for way in ways:
            found[way].append(export_in_child(way, checkpoint, folder / "out"))
    say("cp_mb_per_second", [megabytes / one for one in cp], "MB/s", megabytes=megabytes)
    for way, each in found.items():
        seconds = [one["seconds"] for one in each]
        ratios = [one / other for one, other in zip(seconds, cp, strict=True)]
        facts = {"format": way, "megabytes": megabytes}
        say("export_mb_per_second", [megabytes / one for one in seconds], "MB/s", **facts)
        say("export_vs_cp", ratios, "x", **facts)
        base = each[-1]["base_mb"]
        say("export_extra_mb", [one["extra_mb"] for one in each], "MB", base_mb=base, **facts)


def make(folder: Path, megabytes: int) -> None:
    """Save like several processes that each hold a copy."""
    state = Tracked()
    state.add("model", Model(megabytes))
    flat = state.flatten()
    for rank in range(RANKS):
        checkpoints = Checkpoints(folder, keep=1, attempt="bench")
        checkpoints.save("step-1.g0", flat, rank=rank, size=RANKS, extra={})
        checkpoints.close()
    assert Checkpoints(folder, keep=1).newest()


class Model(torch.nn.Module):
    """A model of unused tensors."""

    def __init__(self, megabytes: int) -> None:
        super().__init__()
        sizes = [megabytes // 4, *([SMALL_MB] * (3 * megabytes // 4 // SMALL_MB))]
        for number, size in enumerate(sizes):
            self.register_buffer(f"tensor{number}", torch.randn(size * 250, 1000))


def copy(checkpoint: Path, output: Path) -> float:
    """Copy all files to the disk; returns the seconds."""
    began = time.perf_counter()
    subprocess.run(["cp", "-r", str(checkpoint), str(output)], check=True)
    subprocess.run(["sync", *map(str, output.rglob("rank-*"))], check=True)
    seconds = time.perf_counter() - began
    shutil.rmtree(output)
    return seconds


def export_in_child(way: str, checkpoint: Path, output: Path) -> dict[str, float]:
    """Export in a separate process, which measures itself."""
    ran = subprocess.run(
        [sys.executable, __file__, "--child", way, str(checkpoint), str(output)],
        stdout=subprocess.PIPE,
        check=True,
    )
    if output.is_dir():
        shutil.rmtree(output)
    else:
        output.unlink()
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found


def export(way: str, checkpoint: str, output: str) -> None:
    """Export once, and print the seconds and the memory."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    base = peak_mb()
    began = time.perf_counter()
    code = spotrun(["export", checkpoint, "--output", output, *WAYS[way]])
    seconds = time.perf_counter() - began
    assert code == 0, way
    print(json.dumps({"seconds": seconds, "base_mb": base, "extra_mb": peak_mb() - base}))


def peak_mb() -> float:
    """Return the peak memory of this process; `ru_maxrss` begins with the parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1000


if __name__ == "__main__":
    main()
