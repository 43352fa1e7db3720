"""A stand-in for the driver's library, and the file with its GPUs."""

from pathlib import Path

import pytest

from tests.support.gpu.nvml_library import compile_nvml


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(compile_nvml(tmp_path_factory.mktemp("nvml")))


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NVML_STATE", str(tmp_path / "gpus"))
    return tmp_path / "gpus"
