"""The S3 server: built once from a pinned Go module and cached."""

import hashlib
import platform
from pathlib import Path

from devcluster.golang import Program, Progress, cache_root, compile_program, find_go, only_builder

_PINS = Path(__file__).parent
_PROGRAM = Program(
    "versitygw", "github.com/versity/versitygw/cmd/versitygw", _PINS, cold_seconds=70
)


def ensure(progress: Progress) -> Path:
    """Return the path of the program, after building it where the cache has none."""
    inputs = b"".join((_PINS / name).read_bytes() for name in ("go.mod", "go.sum"))
    digest = hashlib.sha256(inputs + platform.machine().encode()).hexdigest()[:12]
    folder = cache_root() / f"{_PROGRAM.name}-{digest}"
    if not (folder / _PROGRAM.name).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with only_builder(folder.with_name(f"{folder.name}.lock"), progress):
            if not (folder / _PROGRAM.name).is_file():
                compile_program(find_go(_PINS, progress), _PROGRAM, folder, progress)
    return folder / _PROGRAM.name
