"""The S3 server: built once from a pinned Go module and cached."""

from pathlib import Path

from devcluster.golang import Program, Progress, cached

_PROGRAM = Program(
    "versitygw",
    "github.com/versity/versitygw/cmd/versitygw",
    Path(__file__).parent,
    cold_seconds=70,
)


def ensure(progress: Progress) -> Path:
    """Return the path of the program; builds it if it is not in the cache."""
    return cached(_PROGRAM, progress) / _PROGRAM.name
