"""The image's own torchrun: it runs torch's, and begins the script's imports before that."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[5]
PROGRAM = ROOT / "trainer_image/bin/torchrun"
TORCHRUN = """
import gc, sys
from spotrun_trainer.agent.processes.warm import early
def main(arguments):
    kept = gc.isenabled() and gc.get_freeze_count() > 0
    print(*sys.argv[:1], *arguments, len(early._begun), "kept" if kept else "")
"""
WORKERS = ("--rdzv-backend=spotrun", "train.py", "--lr=1")


@pytest.mark.parametrize(
    ("arguments", "is_worker", "begun"),
    [(WORKERS, True, 1), (WORKERS, False, 0), (("--standalone", "train.py"), True, 0)],
    ids=["of a worker", "elsewhere", "in a worker, by hand"],
)
def test_it_is_torchs_with_the_imports_begun(
    arguments: tuple[str, ...], is_worker: bool, begun: int, tmp_path: Path
) -> None:
    """A torch whose torchrun only tells what has begun before it."""
    package = tmp_path / "torch/distributed"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "run.py").write_text(TORCHRUN)
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PATH": programs}
    if is_worker:
        environment["SPOTRUN_DIR"] = str(tmp_path)
    ran = subprocess.run(
        [PROGRAM, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.stdout == f"torchrun {' '.join(arguments)} {begun} kept\n", ran.stderr


def test_it_comes_first_in_the_image() -> None:
    lines = (ROOT / "trainer_image/Dockerfile").read_text().splitlines()
    assert "COPY trainer_image/bin /opt/spotrun/bin" in lines
    assert "ENV PATH=/opt/spotrun/bin:${PATH}" in lines
