"""Compiles the stand-in for NVML, and tells it what its GPUs are like."""

import subprocess
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

_SOURCE = Path(__file__).with_name("nvml_library.c")


@dataclass(frozen=True)
class FakeGpu:
    """A GPU as NVML describes it; the fields are in the order of a line of its file."""

    uuid: str = "GPU-1"
    serial: str = "1650923000123"
    mhz: int = 1980
    most_mhz: int = 1980
    causes: int = 0
    celsius: int = 50
    milliwatts: int = 300_000
    most_milliwatts: int = 700_000
    busy: int = 90
    lost: int = 0
    rows: int = 0


def compile_nvml(folder: Path) -> Path:
    """Compile the library into a folder, under the name of the driver's own; return its file."""
    library = folder / "libnvidia-ml.so.1"
    command = ("gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(library), str(_SOURCE))
    subprocess.run(command, check=True)
    return library


def describe(state: Path, gpus: Sequence[FakeGpu]) -> None:
    """Write the GPUs into the file that the library reads, all at once."""
    lines = (" ".join(str(value) or "0" for value in astuple(gpu)) for gpu in gpus)
    new = state.with_suffix(".new")
    new.write_text("\n".join(lines) + "\n")
    new.replace(state)


def report_xid(state: Path, xid: int, gpu: int = 0) -> None:
    """Let the driver report an Xid of one of the GPUs."""
    new = state.with_suffix(".new")
    new.write_text(f"{gpu} {xid}\n")
    new.replace(f"{state}.xid")
