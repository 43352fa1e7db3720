"""A stand-in for the driver's library, and the file with its GPUs."""

import shutil
from pathlib import Path

import pytest

from tests.support.gpu.nvml_library import compile_nvml


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def library(compiled: Path, tmp_path: Path) -> str:
    """A copy for this test alone: a thread of an earlier test still waits in its own."""
    return str(shutil.copy(compiled, tmp_path))


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NVML_STATE", str(tmp_path / "gpus"))
    return tmp_path / "gpus"
