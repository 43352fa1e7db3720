"""What is brought into images: it is whole, of Python alone, and runs on the oldest Python."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spotrun_trainer.agent.launch.package import LIST, TornError, bring, verify

OLDEST_PYTHON = (3, 10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    bring(tmp_path)
    return tmp_path


def test_what_was_brought_is_found_whole(folder: Path) -> None:
    assert verify(folder) == bring(folder), "the same files have the same checksum"


def test_it_holds_packages_of_ours_and_what_torchrun_looks_for(folder: Path) -> None:
    names = {path.name.partition("-")[0] for path in folder.iterdir()}
    assert names == {"spotrun", "spotrun_trainer"}
    assert {path.name for path in (folder / "spotrun").iterdir()} <= {
        "__init__.py",
        "py.typed",
        "wire",
    }
    suffixes = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert suffixes <= {".py", ".sh", ".json", ".typed", ".txt", ""}, "nothing is compiled"


def test_all_of_it_is_syntax_of_the_oldest_python(folder: Path) -> None:
    files = list(folder.rglob("*.py"))
    assert len(files) > 100
    for file in files:
        ast.parse(file.read_text(), str(file), feature_version=OLDEST_PYTHON)


def test_a_process_uses_what_was_brought_and_not_what_the_image_has(folder: Path) -> None:
    program = (
        "from importlib.metadata import entry_points\n"
        "import spotrun.wire, spotrun_trainer\n"
        "(one,) = entry_points(group='torchrun.handlers')\n"
        "print(spotrun.wire.__file__, spotrun_trainer.__file__, one.dist.locate_file(''), one.name)"
    )
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    said = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    ).stdout.split()
    wire, trainer, found_in, name = said
    assert wire == str(folder / "spotrun/wire/__init__.py")
    assert trainer == str(folder / "spotrun_trainer/__init__.py")
    assert (found_in.rstrip("/"), name) == (str(folder), "spotrun")


def cut(folder: Path) -> None:
    file = folder / "spotrun_trainer/run.py"
    file.write_bytes(file.read_bytes()[:100])


def lose(folder: Path) -> None:
    (folder / "spotrun_trainer/run.py").unlink()


def stop_before_the_list(folder: Path) -> None:
    (folder / LIST).unlink()


def empty_the_list(folder: Path) -> None:
    (folder / LIST).write_text("[]")


@pytest.mark.parametrize("tear", [cut, lose, stop_before_the_list, empty_the_list])
def test_a_torn_copy_is_refused(folder: Path, tear: object) -> None:
    assert callable(tear)
    tear(folder)
    with pytest.raises(TornError, match=str(folder)):
        verify(folder)
