"""A worker's first program, in images of every kind; a folder of programs stands for the image."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from spotrun.wire import Ending, LastWords, read_last_words
from spotrun_trainer.agent.launch.package import bring

START = "spotrun_trainer/agent/launch/start.sh"


@dataclass(frozen=True)
class Started:
    exit_code: int
    said: str
    last_words: LastWords | None


@dataclass(frozen=True)
class Image:
    folder: Path

    def has(self, name: str, script: str) -> None:
        """Put a program into PATH."""
        self.programs.mkdir(exist_ok=True)
        file = self.programs / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    @property
    def programs(self) -> Path:
        return self.folder / "programs"

    @property
    def package(self) -> Path:
        return self.folder / "package"

    def start(self, *arguments: str, **environment: str) -> Started:
        log = self.folder / "termination-log"
        told = {"PATH": str(self.programs), "SPOTRUN_TERMINATION_LOG": str(log), **environment}
        ran = subprocess.run(
            ["/bin/sh", self.package / START, *arguments],
            env=told, capture_output=True, text=True, check=False,
        )  # fmt: skip
        words = read_last_words(log.read_text()) if log.exists() else None
        return Started(ran.returncode, ran.stdout + ran.stderr, words)


@pytest.fixture
def image(tmp_path: Path) -> Image:
    image = Image(tmp_path)
    bring(image.package)
    return image


def python(arguments: str = "") -> str:
    return f'exec {sys.executable} {arguments} "$@"'


def without_torch() -> str:
    """Python as a distribution has it: with nothing but the standard library."""
    return f'exec {Path(sys.base_prefix) / "bin/python3"} -S "$@"'


OLD = 'case "$1" in -V) echo Python 3.9.2 ;; *) exit 99 ;; esac'


def refused(message: str) -> LastWords:
    return LastWords(Ending.UNUSABLE, exit_code=64, message=message)


def test_an_image_without_python_is_refused(image: Image) -> None:
    image.programs.mkdir()
    ended = image.start()
    why = (
        "the image has no Python in its PATH: "
        "use an image with Python 3.10 or newer and torch 2.10 or newer"
    )
    assert (ended.exit_code, ended.last_words) == (64, refused(why))
    assert why in ended.said


def test_an_old_python_is_refused(image: Image) -> None:
    image.has("python3", OLD)
    image.has("python", OLD)
    ended = image.start()
    assert ended.last_words == refused(
        "no Python in the image's PATH is new enough (it has Python 3.9.2, Python 3.9.2): "
        "use an image with Python 3.10 or newer and torch 2.10 or newer"
    )


@pytest.mark.parametrize(
    ("script", "code"), [("kill -KILL $$", 137), ("exit 1", 1), ("exec /gone/python3", 127)]
)
def test_a_python_that_does_not_start_is_not_called_too_old(
    image: Image, script: str, code: int
) -> None:
    image.has("python3", script)
    ended = image.start()
    assert ended.exit_code == 67
    assert ended.last_words == LastWords(
        Ending.FAILED,
        exit_code=67,
        message=f"a Python in the image's PATH did not start: python3 ended with exit code {code}",
    )


def test_the_python_that_is_new_enough_is_taken(image: Image) -> None:
    image.has("python3", OLD)
    image.has("python", python())
    ended = image.start("--help")
    assert (ended.exit_code, ended.last_words) == (0, None)
    assert "usage: torchrun" in ended.said


def test_an_image_without_torch_is_refused(image: Image) -> None:
    image.has("python3", without_torch())
    ended = image.start()
    assert ended.exit_code == 64
    assert ended.last_words is not None
    assert ended.last_words.reason is Ending.UNUSABLE
    assert "has no torch: install torch 2.10 or newer for it" in ended.last_words.message


def torch_of(image: Image, version: str, content: str = "") -> dict[str, str]:
    """An image's torch, of which there is no more than a name."""
    folder = image.folder / "theirs" / "torch"
    folder.mkdir(parents=True)
    (folder / "version.py").write_text(f"__version__ = {version!r}\n")
    (folder / "__init__.py").write_text(content)
    return {"PYTHONPATH": str(folder.parent)}


def test_an_old_torch_is_refused(image: Image) -> None:
    image.has("python3", python())
    ended = image.start(**torch_of(image, "2.6.0"))
    assert ended.last_words == refused(
        "the image has torch 2.6.0, but spotrun needs torch 2.10 or newer: "
        "use an image with a newer torch"
    )


@pytest.mark.parametrize("kind", ["ImportError", "OSError"])
def test_a_torch_that_cannot_be_imported_here_may_be_elsewhere(image: Image, kind: str) -> None:
    image.has("python3", python())
    broken = f"raise {kind}('libcudart.so.13: cannot open shared object file')"
    ended = image.start(**torch_of(image, "2.15.0", broken))
    assert ended.exit_code == 66
    assert ended.last_words is not None
    assert ended.last_words.reason is Ending.FAILED
    assert ended.last_words.message.endswith("libcudart.so.13: cannot open shared object file")


def test_a_torn_copy_is_a_failure_that_may_be_tried_again(image: Image) -> None:
    image.has("python3", python())
    (image.package / "spotrun_trainer/run.py").write_text("")
    ended = image.start()
    assert ended.exit_code == 65
    assert ended.last_words is not None
    assert ended.last_words.reason is Ending.FAILED
    assert "such as spotrun_trainer/run.py" in ended.last_words.message


SHOW = "import os, sys, spotrun_trainer; print(spotrun_trainer.__file__, os.environ['PYTHONPATH'])"


def test_a_script_gets_the_package_that_was_brought_before_its_own(image: Image) -> None:
    image.has("python3", python())
    script = image.folder / "script.py"
    script.write_text(SHOW)
    ended = image.start("--standalone", str(script), PYTHONPATH="/theirs", HOME=os.environ["HOME"])
    assert ended.exit_code == 0, ended.said
    assert f"{image.package}/spotrun_trainer/__init__.py {image.package}:/theirs" in ended.said
    assert "the image's own spotrun" in ended.said, "this Python has one"
