"""The examples do what they are shown for: one program, alone and with others, and it learns."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "trainer_image/examples"
PLAIN = ("plain_loop.py", "snapshots.py", "epochs.py")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
STEPS = 12


def losses(printed: str) -> dict[int, float]:
    """By step, of those that were printed."""
    found = re.findall(r"^step (\d+)  loss ([\d.]+)$", printed, re.MULTILINE)
    return {int(step): float(loss) for step, loss in found}


def run_example(
    name: str, *options: str, way: tuple[str, ...], here: Path, **environment: str
) -> str:
    """What it prints, and that it ends well."""
    ended = subprocess.run(
        [sys.executable, *way, EXAMPLES / name, *options],
        cwd=here,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("way", [(), TORCHRUN], ids=["alone", "two processes"])
def test_a_tiny_language_model_learns(way: tuple[str, ...], tmp_path: Path) -> None:
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    found = losses(
        run_example("tiny_lm.py", f"--steps={STEPS}", way=way, here=here, TMPDIR=str(temporary))
    )

    assert found[1] == pytest.approx(5.55, abs=0.5)  # it knows nothing yet: ln 256
    assert found[STEPS] < 3.5  # alone or not, for the batch is the same
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("processes", "options"),
    [
        (1, ()),
        (2, ("--shard=2",)),
        (2, ("--shard=2", "--precision=bf16")),
        (4, ("--shard=2", "--tensor=2")),
        (2, ("--pipeline=2",)),
        (4, ("--pipeline=2", "--shard=2")),
    ],
)
def test_a_small_llama_learns_the_same_however_it_is_divided(
    processes: int, options: tuple[str, ...], tmp_path: Path
) -> None:
    way = (*TORCHRUN[:-1], f"--nproc-per-node={processes}") if processes > 1 else ()
    printed = run_example("llama.py", f"--steps={STEPS}", *options, way=way, here=tmp_path)
    found = losses(printed)

    assert found[1] == pytest.approx(5.643, abs=0.002)
    assert found[STEPS] == pytest.approx(3.184, abs=0.005)


def test_a_plain_loop_that_keeps_its_state_trains_where_nothing_is_kept(tmp_path: Path) -> None:
    printed = run_example("plain_ddp.py", "--epochs=2", way=TORCHRUN, here=tmp_path)
    assert re.findall(r"^epoch (\d+)  step (\d+)  loss", printed, re.MULTILINE) == [
        ("0", "32"),
        ("1", "64"),
    ]
    assert "the state is not kept in memory, and the training continues without" in printed


def test_an_example_can_be_read_at_a_glance() -> None:
    for path in [*EXAMPLES.glob("*.py"), *(EXAMPLES.parents[1] / "examples").glob("*.py")]:
        most = 120 if path.name == "llama.py" else 60  # which has a model of its own in it
        assert len(path.read_text().splitlines()) < most, path.name


@pytest.mark.parametrize("name", PLAIN)
def test_scripts_that_are_run_as_they_are_know_nothing_of_us(name: str) -> None:
    assert "spotrun" not in (EXAMPLES.parents[1] / "tests/scripts" / name).read_text().lower()
