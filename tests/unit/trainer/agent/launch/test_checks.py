"""The image's torch, judged without an import."""

import re
import sys
from pathlib import Path

import pytest
import torch

from spotrun_trainer.agent.launch.checks import (
    OLDEST_TORCH,
    others_version,
    torch_version,
    why_unusable,
)
from tests.support.cluster.operator_world import ROOT


def test_the_version_is_torchs_own_word() -> None:
    assert torch_version() == torch.__version__


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("__version__ = '2.10.0'\n", "2.10.0"),
        ("__version__: str = \"2.9.1+cpu\"\ngit_version = 'x'\n", "2.9.1+cpu"),
        ("__all__ = ['__version__']\n", "unknown"),
    ],
)
def test_it_is_read_from_the_file_that_torch_builds_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, expected: str
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").touch()
    (tmp_path / "torch/version.py").write_text(content)
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.syspath_prepend(tmp_path)
    assert torch_version() == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.10.0", None),
        ("2.10.0a0+git1234", None),
        ("2.15.0+cu132", None),
        ("3.0.0", None),
        ("unknown", None),
        ("2.9.1+cpu", "the image has torch 2.9.1+cpu, but spotrun needs torch 2.10"),
        ("1.13.1", "the image has torch 1.13.1, but spotrun needs torch 2.10"),
        (None, "the image's Python (3.12.4) has no torch: install torch 2.10 or newer for it"),
    ],
)
def test_an_old_torch_and_none_are_refused(version: str | None, expected: str | None) -> None:
    said = why_unusable(version, "3.12.4")
    assert (said is None) is (expected is None)
    assert expected is None or str(said).startswith(expected)


def test_the_oldest_is_the_one_that_the_package_asks_for() -> None:
    asked = re.search(r'"torch>=(\d+)\.(\d+)', (ROOT / "pyproject.toml").read_text())
    assert asked is not None
    assert tuple(map(int, asked.groups())) == OLDEST_TORCH


def test_a_spotrun_of_the_image_is_noticed(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder, version in ((ours, "2"), (theirs, "1")):
        (folder / f"spotrun-{version}.dist-info").mkdir(parents=True)
        about = f"Metadata-Version: 2.1\nName: spotrun\nVersion: {version}\n"
        (folder / f"spotrun-{version}.dist-info/METADATA").write_text(about)
    assert others_version(ours, [str(ours), str(theirs)]) == "1"
    assert others_version(ours, [str(ours), str(tmp_path)]) is None
