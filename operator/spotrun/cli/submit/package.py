"""A script, or a folder of them, packed into a ConfigMap that is named after its content."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from pathlib import Path

MOST_BYTES = 1_000_000
"""Kubernetes accepts ConfigMaps of up to 1 MiB, names included."""
_MOST_FILES = 500
_ENTRIES = ("train.py", "main.py")
_SKIPPED = frozenset({"__pycache__", "node_modules", "venv", "wandb", "lightning_logs"})
_NO_KEY = re.compile(r"[^-._a-zA-Z0-9]")
_NO_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Package:
    """The files of a training, and the one that is run."""

    entry: str  # relative to the folder
    files: Mapping[str, bytes]  # by their paths in it

    @property
    def digest(self) -> str:
        """Ten characters that differ if any file differs."""
        found = hashlib.sha256()
        for path, content in sorted(self.files.items()):
            found.update(f"{len(path)} {path} {len(content)} ".encode() + content)
        return found.hexdigest()[:10]

    @property
    def keys(self) -> dict[str, str]:
        """The paths of the files by their keys in a ConfigMap, which may have no slash."""
        keys: dict[str, str] = {}
        for path in sorted(self.files):
            plain = _NO_KEY.sub("_", path.replace("/", "--"))
            names = chain([plain], (f"{n}-{plain}" for n in count(1)))
            keys[next(name for name in names if name not in keys)] = path
        return keys


def pack(given: str, entry: str | None = None) -> Package:
    """Read a script or a folder; raises ValueError that says what is wrong with it."""
    try:
        return _packed(given, entry)
    except OSError as error:
        raise ValueError(f"{error.filename or given} cannot be read: {error.strerror}") from error


def _packed(given: str, entry: str | None) -> Package:
    path = Path(given)
    if path.is_file():
        if entry is not None:
            raise ValueError(f"--entry chooses a file of a folder, and {given} is a file")
        _require_size(given, {path.name: path.stat().st_size})
        return _sized(given, Package(path.name, {path.name: path.read_bytes()}))
    if not path.is_dir():
        raise ValueError(f"there is no file or folder {given}")
    found = islice(_files(path), _MOST_FILES + 1)  # a home folder has millions
    files = {str(one.relative_to(path)): one for one in found}
    if len(files) > _MOST_FILES:
        raise ValueError(
            f"{given} has more than {_MOST_FILES} files, and no more can be sent: build an "
            "image, or send the folder of the script alone"
        )
    chosen = entry or next((name for name in _ENTRIES if name in files), None)
    if chosen not in files:
        raise ValueError(
            f"{given} has no {chosen or ' and no '.join(_ENTRIES)}: name the script with --entry"
        )
    _require_size(given, {name: file.stat().st_size for name, file in files.items()})
    contents = {name: file.read_bytes() for name, file in files.items()}
    return _sized(given, Package(chosen, contents))


def name_for(given: str, package: Package) -> str:
    """Return a name for the job: that of the script, or of its folder."""
    path = Path(given).resolve()
    stem = path.stem if path.is_file() else path.name
    if stem in ("", "main") and package.entry:
        stem = path.parent.name if path.is_file() else Path(package.entry).stem
    return _NO_NAME.sub("-", stem.lower()).strip("-")[:40].strip("-") or "train"


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files to send: nothing hidden, no caches, no links."""
    for one in sorted(folder.iterdir()):
        if one.name.startswith(".") or one.name in _SKIPPED or one.is_symlink():
            continue
        if one.is_dir():
            yield from _files(one)
        elif one.is_file() and one.suffix != ".pyc":
            yield one


def _sized(given: str, package: Package) -> Package:
    _require_size(given, {name: len(content) for name, content in package.files.items()})
    return package


def _require_size(given: str, sizes: Mapping[str, int]) -> None:
    total = sum(sizes.values()) + sum(map(len, sizes))
    if total > MOST_BYTES:
        largest: Sequence[str] = sorted(sizes, key=lambda name: -sizes[name])[:3]
        raise ValueError(
            f"{given} has {total:,} bytes, and {MOST_BYTES:,} can be sent (largest: "
            f"{', '.join(f'{name} {sizes[name]:,}' for name in largest)}). Put data and weights on "
            "a volume or into a bucket, or build an image"
        )
