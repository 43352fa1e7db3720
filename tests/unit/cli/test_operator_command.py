"""`spotrun operator` where it cannot start: a sentence that says why, and an exit code."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spotrun.cli.operator_process import command as operator_command
from spotrun.runtime.options import Options


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """`run` sets up the log of the process, which is pytest's here."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)


def test_without_a_kubeconfig_it_is_said_where_one_was_sought(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert operator_command.run(Options(kubeconfig=tmp_path / "none")) == 2

    said = capsys.readouterr().err
    assert f"there is no kubeconfig at {tmp_path / 'none'}" in said
    assert "--kubeconfig" in said


def test_a_kubeconfig_that_cannot_be_used_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").write_text("clusters: [")

    assert operator_command.run(Options(kubeconfig=tmp_path / "config")) == 2

    assert f"{tmp_path / 'config'} cannot be read as a kubeconfig" in capsys.readouterr().err


def test_its_imports_need_no_kubernetes_client_and_leave_it_to_who_does() -> None:
    program = """
import gc, sys
from spotrun.cli.operator_process.quick_imports import quick_imports
with quick_imports():
    import spotrun.cli.operator_process.command
assert not [name for name in sys.modules if name.startswith("kubernetes")]
assert gc.isenabled()
import kubernetes.aio.config
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
