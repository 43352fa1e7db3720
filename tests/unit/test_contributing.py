"""The changes that CONTRIBUTING.md shows can be made: their diffs apply, and their tests pass."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = ("operator", "devcluster", "tests/support", "tests/conftest.py", "pyproject.toml")
"""The parts of the tree that tests of the operator's own code need."""


def diffs(document: str) -> dict[str, str]:
    """Each change that is shown as a diff, by its heading."""
    shown = re.compile(
        r"^#+ ([^\n]*)\n(?:(?!^#|^```diff).)*^```diff\n(.*?)^```$", re.DOTALL | re.MULTILINE
    )
    return dict(shown.findall(document))


DIFFS = diffs((ROOT / "CONTRIBUTING.md").read_text())


def copy(name: str, target: Path) -> None:
    """Copy a file or a folder of the tree to the same place below `target`."""
    (target / name).parent.mkdir(parents=True, exist_ok=True)
    if (ROOT / name).is_dir():
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    elif not (target / name).exists():
        shutil.copy(ROOT / name, target / name)


def run(*command: str, folder: Path, given: str = "") -> str:
    """Run a command; returns what it says if it fails, else nothing."""
    path = os.pathsep.join(map(str, (folder, folder / "operator")))
    environment = {"GIT_CEILING_DIRECTORIES": str(folder.parent), "PYTHONPATH": path}
    done = subprocess.run(
        command,
        cwd=folder,
        input=given,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout + done.stderr if done.returncode else ""


def test_the_changes_that_people_make_most_are_shown() -> None:
    assert {*DIFFS} == {"Add a metric", "Add a field", "Add a cloud", "Add a policy"}


@pytest.mark.parametrize("heading", DIFFS)
def test_a_change_that_is_shown_can_be_made(heading: str, tmp_path: Path) -> None:
    diff = DIFFS[heading]
    changed = re.findall(r"^--- a/(.*)$", diff, re.MULTILINE)
    tests = [
        name for name in re.findall(r"^\+\+\+ b/(.*)$", diff, re.MULTILINE) if "/test_" in name
    ]
    for name in (*COPIED, *changed):
        copy(name, tmp_path)

    assert not run("git", "apply", "-", folder=tmp_path, given=diff), "make it anew, and show that"
    assert tests
    test = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    assert not run(*test, folder=tmp_path)
