"""Reports as scripts for Ray Train make them, in two processes of which one is told to end."""

import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from spotrun_trainer.integrations import ray_train as train
from spotrun_trainer.integrations.step_boundary import StepBoundary
from tests.support.processes.trainer_world import run_world


def train_until(told_at: int | None, steps: int) -> list[int]:
    """Return the steps that a rank makes; the first one is told to end after one of them."""
    import torch.distributed as dist  # noqa: PLC0415 - in a process of its own

    dist.init_process_group("gloo")
    rank, made = dist.get_rank(), list[int]()
    here = Path(os.environ["SPOTRUN_CHECKPOINT"]).parent / f"of-rank-{rank}"
    here.mkdir(exist_ok=True)
    found = train.get_checkpoint()
    done = 0
    if found is not None:
        with found.as_directory() as folder:
            done = int((Path(folder) / "step.txt").read_text())
            assert (Path(folder) / "rank-1.txt").exists()
    try:
        for step in range(done + 1, steps + 1):
            made.append(step)
            if rank == 0 and step == told_at:
                os.kill(os.getpid(), signal.SIGTERM)
            if not train.should_checkpoint():
                train.report({"step": step, "loss": 0.5})
                continue
            (here / (f"rank-{rank}.txt" if rank else "step.txt")).write_text(str(step))
            train.report({"step": step}, checkpoint=train.Checkpoint.from_directory(here))
    except SystemExit:
        assert made
    return made


def test_the_next_world_goes_on_after_the_last_report(tmp_path: Path) -> None:
    env = {
        "SPOTRUN_DIR": str(tmp_path),
        "SPOTRUN_WORLD_NUMBER": "1",
        "SPOTRUN_CHECKPOINT": str(tmp_path / "kept"),
    }
    first = run_world(2, train_until, 5, 10_000_000, env=env)
    assert [one.error for one in first] == ["", ""], first[0].said
    assert first[0].value == first[1].value, "both end after the same step"
    last = first[0].value[-1]
    assert last >= 5
    second = run_world(2, train_until, None, last + 3, env=env)
    assert [(one.value, one.error) for one in second] == [([last + 1, last + 2, last + 3], "")] * 2
    assert [one.name for one in (tmp_path / "kept").iterdir()] == ["checkpoint_000001"]


def test_there_is_no_checkpoint_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTRUN_CHECKPOINT", str(tmp_path / "kept"))
    assert train.get_checkpoint() is None


def only_the_first_brings_one(steps: int) -> bool:
    import torch.distributed as dist  # noqa: PLC0415 - in a process of its own

    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    is_first = dist.get_rank() == 0
    here = Path(os.environ["SPOTRUN_CHECKPOINT"]).parent / "written"
    if is_first:
        here.mkdir(exist_ok=True)
        (here / "step.json").write_text("1")
    for step in range(steps):
        brought = train.Checkpoint.from_directory(here) if is_first else None
        train.report({"step": step}, checkpoint=brought)
    return True


@pytest.mark.parametrize("env", [{}, {"SPOTRUN_WORLD_NUMBER": "1"}])
def test_one_rank_may_bring_the_checkpoint_of_all(tmp_path: Path, env: dict[str, str]) -> None:
    kept = tmp_path / "kept"
    env = {"SPOTRUN_CHECKPOINT": str(kept), **env}
    if "SPOTRUN_WORLD_NUMBER" in env:
        env["SPOTRUN_DIR"] = str(tmp_path)
    ended = run_world(2, only_the_first_brings_one, 3, env=env)
    assert [(one.value, one.error) for one in ended] == [(True, "")] * 2, ended[1].said
    assert sorted(one.name for one in kept.iterdir()) == ["checkpoint_000002", "checkpoint_000003"]


def test_a_torn_checkpoint_is_in_nobodys_way(tmp_path: Path) -> None:
    written = tmp_path / "written"
    written.mkdir()
    (written / "state.json").write_text("1")
    kept = tmp_path / "kept"
    for number, content in ((4, "1"), (5, "{")):
        (kept / f"checkpoint_{number:06}").mkdir(parents=True)
        (kept / f"checkpoint_{number:06}" / "state.json").write_text(content)
    reporter = train.Reporter(kept, StepBoundary(env={}))
    for there in ((4, 5, 6), (6, 7), (7, 8)):
        reporter.report({}, train.Checkpoint(written))
        assert sorted(int(one.name[-6:]) for one in kept.iterdir()) == list(there)
