"""Files that volumes are filled with."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class File:
    """The content and mode of a file of a volume."""

    content: bytes
    mode: int


def write_all(directory: Path, files: Mapping[str, File]) -> None:
    """Write files, given by their paths below the directory."""
    for name, file in files.items():
        write(directory / name, file)


def write(path: Path, file: File) -> None:
    """Write a file so that a reader sees the old or the new content, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.fresh")
    fresh.write_bytes(file.content)
    fresh.chmod(file.mode)
    fresh.replace(path)
