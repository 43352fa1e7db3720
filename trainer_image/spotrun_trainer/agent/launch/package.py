"""The copied package: its files, and a list of their checksums that shows whether all are there."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

LIST = "spotrun-package.json"
"""The file that is written last: a folder without it is not complete."""
HANDLERS = "torchrun.handlers"
_NAME = "spotrun"


class TornError(Exception):
    """The folder does not contain the whole package; the message says what is wrong."""


@dataclass(frozen=True)
class Package:
    """A package in a folder that can be an entry of PYTHONPATH."""

    version: str
    checksum: str  # of the list of checksums


def bring(folder: Path) -> Package:
    """Copy the trainer, and what it needs of the operator, from this Python into a folder."""
    files = _files_here()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    listed = _listed(distribution(_NAME).version, files)
    unfinished = folder / f".{LIST}"
    unfinished.write_bytes(listed)
    unfinished.replace(folder / LIST)
    return _read(listed)


def verify(folder: Path) -> Package:
    """Return the package in a folder; raises TornError if a file is missing or has changed."""
    try:
        listed = (folder / LIST).read_bytes()
        package, sums = _read(listed), json.loads(listed)["files"]
        wrong = [name for name, its_sum in sums.items() if _sum_of(folder / name) != its_sum]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TornError(f"the copy in {folder} is not complete: {error}") from error
    if wrong:
        raise TornError(
            f"{len(wrong)} files in {folder} are missing or have changed, such as {wrong[0]}"
        )
    return package


def _files_here() -> dict[str, bytes]:
    wire, trainer = _folder_of("spotrun.wire"), _folder_of("spotrun_trainer")
    found = [*wire.parent.glob("*.typed"), wire.parent / "__init__.py", *wire.rglob("*")]
    files = {path.relative_to(wire.parents[1]): path for path in found}
    files |= {path.relative_to(trainer.parent): path for path in trainer.rglob("*")}
    code = {
        name.as_posix(): path.read_bytes()
        for name, path in files.items()
        if path.is_file() and "__pycache__" not in name.parts
    }
    return code | _metadata()


def _metadata() -> dict[str, bytes]:
    """Return the files by which Python finds the package, and torchrun its rendezvous."""
    version = distribution(_NAME).version
    handlers = distribution(_NAME).entry_points.select(group=HANDLERS)
    lines = [f"[{HANDLERS}]", *(f"{one.name} = {one.value}" for one in handlers)]
    about = f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {version}\n"
    folder = f"{_NAME}-{version}.dist-info"
    return {
        f"{folder}/METADATA": about.encode(),
        f"{folder}/entry_points.txt": "\n".join([*lines, ""]).encode(),
    }


def _folder_of(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None, "it is installed where this runs"
    assert spec.origin is not None, "it is a package of files"
    return Path(spec.origin).parent


def _listed(version: str, files: Mapping[str, bytes]) -> bytes:
    sums = {name: sha256(content).hexdigest() for name, content in sorted(files.items())}
    return json.dumps({"version": version, "files": sums}, indent=0).encode()


def _read(listed: bytes) -> Package:
    return Package(str(json.loads(listed)["version"]), sha256(listed).hexdigest())


def _sum_of(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
