"""What images and .venv are made with, locks/, is a part of requirements.lock, and complete."""

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
WANTED = {
    "operator": EXTRAS["operator"] + EXTRAS["aws"],
    "trainer": EXTRAS["trainer"] + ["numpy"],
    "build": PROJECT["build-system"]["requires"],
    "setup": ["uv"],
}
"""The extras that each lock is for; their own needs come with them."""

every_lock = pytest.mark.parametrize("lock", WANTED)


def locked(file: str) -> dict[str, frozenset[str]]:
    """The hashes of each `name==version`."""
    entries = re.split(r"^(?=[a-z0-9])", (ROOT / file).read_text(), flags=re.MULTILINE)
    return {
        entry.split()[0]: frozenset(re.findall(r"--hash=(sha256:\w+)", entry))
        for entry in entries
        if entry
    }


def names(file: str) -> set[str]:
    return {entry.partition("==")[0] for entry in locked(file)}


@every_lock
def test_a_lock_is_a_part_of_the_whole(lock: str) -> None:
    whole, part = locked("requirements.lock"), locked(f"locks/{lock}.lock")

    assert part.items() <= whole.items()
    assert all(part.values())


@every_lock
def test_nothing_is_missing(lock: str) -> None:
    there = names(f"locks/{lock}.lock")
    needed = names_of(map(Requirement, WANTED[lock]))
    seen: set[str] = set()
    while needed:
        name = needed.pop()
        if name not in seen:
            seen.add(name)
            needed += requirements(name)

    assert seen <= there


def requirements(name: str) -> list[str]:
    """What a package needs here, without its extras."""
    every = map(Requirement, distribution(name).requires or ())
    here = (one for one in every if one.marker is None or one.marker.evaluate({"extra": ""}))
    return names_of(here)


def names_of(every: Iterable[Requirement]) -> list[str]:
    return [canonicalize_name(one.name) for one in every]


def test_there_is_no_lock_that_nobody_asked_for() -> None:
    found = {file.name for file in (ROOT / "locks").iterdir()}
    beside = found - {f"{lock}.lock" for lock in WANTED}  # installed beside .venv

    assert found - beside == {f"{lock}.lock" for lock in WANTED}
    assert all(f"-r locks/{name}" in (ROOT / "Makefile").read_text() for name in beside)


@pytest.mark.parametrize(
    ("folder", "taken"),
    [("operator", ["operator", "build"]), ("trainer_image", ["build", "trainer"])],
)
def test_images_take_every_file_by_its_hash(folder: str, taken: list[str]) -> None:
    text = (ROOT / folder / "Dockerfile").read_text()

    assert re.findall(r"--no-deps --require-hashes -r (?:locks/)?(\w+)\.lock", text) == taken
