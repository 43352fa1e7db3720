"""Under spotrun: a trainer reads world.json, and says in progress.json what it does."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from spotrun.wire import Answer, How, Metric, Orders, World
from spotrun_trainer.elastic.world_context import open_context
from spotrun_trainer.process.ipc_files import read_progress, write_world
from spotrun_trainer.run import Run
from tests.support.processes.trainer_world import OWN_WORKER, Ended, run_world
from tests.unit.trainer.run.scripts import SAMPLES, Plan, kill_in_forward, network, train

PLAN = Plan(total=4, with_batch_norm=True)
WORLD = 5


def answer(
    rank: int, *, restore: str | None = None, orders: int = 0, stop_at: float | None = None
) -> Answer:
    """What the operator says to a worker with one process, in a world of two."""
    rank_info = World(
        number=WORLD,
        rank=rank,
        size=2,
        processes=1,
        store="",
        secret="",
        neighbours=(),
        how=How.RESTART,
        switch=True,
        restore=restore,
    )
    return Answer("", "Running", rank_info, Orders(checkpoint=orders), stop_at)


def run_under_spotrun(
    directory: Path,
    plan: Any,
    *,
    restore: str | None = None,
    script: Callable[..., Any] = train,
    **env: str,
) -> list[Ended]:
    """Two workers, as their agents start them."""

    def place(rank: int) -> dict[str, str]:
        worker = directory / f"worker-{rank}"
        worker.mkdir(exist_ok=True)
        write_world(worker, answer(rank, restore=restore))
        return OWN_WORKER | {"SPOTRUN_DIR": str(worker)}

    env = {"SPOTRUN_WORLD_NUMBER": str(WORLD), **env}
    return run_world(2, script, plan, env=env, by_rank=place)


def test_a_broken_world_is_told_and_the_next_one_waited_for(tmp_path: Path) -> None:
    plan = replace(PLAN, nuisance=kill_in_forward)
    began = time.monotonic()
    left, _ = run_under_spotrun(tmp_path, plan, SPOTRUN_BROKEN_SECONDS="0.3")
    progress = read_progress(tmp_path / "worker-0")
    assert (progress.world_number, progress.broken, progress.step) == (
        WORLD,
        WORLD,
        2,
    )
    assert time.monotonic() - began > 0.3
    assert left.error.startswith(
        "TimeoutError: world 5 broke, and the operator made no next world within 0 s"
    )


def test_a_complete_training_is_told_with_its_checkpoint(tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path / "checkpoints"))
    ended = run_under_spotrun(tmp_path, plan)
    for one in ended:
        assert one.error == "", one.said
    for rank in range(2):
        progress = read_progress(tmp_path / f"worker-{rank}")
        assert progress.completed
        assert progress.checkpoint == f"step-4.g{WORLD}"
        assert (progress.step, progress.total, progress.samples) == (4, 4, 4 * PLAN.global_batch)
        shares = (progress.compute, progress.data, progress.communicate)
        assert sum(share or 0.0 for share in shares) == pytest.approx(1.0)
        assert progress.microbatches == PLAN.global_batch // PLAN.microbatch
        assert progress.sync_bytes
        assert progress.epoch_samples == SAMPLES
        assert progress.checkpoint_seconds
        (loss,) = progress.metrics
        assert loss == Metric("loss", loss.value, 4)
        assert loss.value == pytest.approx(ended[rank].value.losses[-1])


@dataclass(frozen=True)
class Slow:
    """One process takes more for a microbatch than a busy machine adds to any."""

    rank: int

    def __call__(self, run: Run, _step: int, count: int) -> None:
        if run.rank == self.rank and count >= 0:
            time.sleep(0.05)


@pytest.mark.parametrize("rank", [0, 1])
def test_who_is_waited_for_shows_in_the_times_that_processes_tell(
    rank: int, tmp_path: Path
) -> None:
    """The operator names a worker whose own part of a step takes 1.3 times as long as another's."""
    run_under_spotrun(tmp_path, replace(PLAN, nuisance=Slow(rank), total=12))
    told = [read_progress(tmp_path / f"worker-{one}") for one in range(2)]
    own = [((one.compute or 0.0) + (one.data or 0.0)) * (one.step_seconds or 0.0) for one in told]
    assert own[rank] > 1.5 * own[1 - rank]
    assert (told[1 - rank].communicate or 0.0) > (told[rank].communicate or 0.0)


def test_speeds_are_measured_before_the_first_step_if_the_script_asks(tmp_path: Path) -> None:
    plain = run_under_spotrun(tmp_path, PLAN)
    assert read_progress(tmp_path / "worker-0").flops is None
    checked = run_under_spotrun(tmp_path, replace(PLAN, check_speed=True))
    told = [read_progress(tmp_path / f"worker-{rank}") for rank in range(2)]
    assert all(one.flops and one.link_bytes for one in told), told
    assert told[0].link_bytes == told[1].link_bytes  # it is the only one
    assert checked[0].value.digest == plain[0].value.digest


def test_compressed_sums_are_told_by_the_bytes_that_are_sent(tmp_path: Path) -> None:
    plan = replace(PLAN, compress="bf16", total=1)
    for ended in run_under_spotrun(tmp_path, plan):
        assert ended.error == "", ended.said
    numbers = [one.numel() for one in network(plan).parameters()]
    told = {read_progress(tmp_path / f"worker-{rank}").sync_bytes for rank in range(2)}
    assert told == {2 * (sum(numbers) + len(numbers))}  # with a mark for each parameter


def test_a_save_in_the_world_before_is_not_told_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "spotrun_trainer.elastic.world_context.install_failure_note", lambda _reporter: None
    )
    alone = answer(0)
    assert alone.world is not None
    write_world(tmp_path, replace(alone, world=replace(alone.world, size=1)))
    ranks = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    env = {"SPOTRUN_DIR": str(tmp_path), "SPOTRUN_WORLD_NUMBER": str(WORLD), **ranks}
    context = open_context(0, deterministic=False, place=None, keep=1, device="cpu", env=env)
    with context.meter.span("checkpoint"):
        pass
    context.reporter.update(ready=True)
    before = read_progress(tmp_path)
    context.group.close()
    context.report_arrival(step=0)
    after = read_progress(tmp_path)
    context.close()
    assert before.checkpoint_seconds
    assert (before.world_number, after.world_number) == (0, WORLD)
    assert after.checkpoint_seconds == 0.0


def terminate_rank_1(run: Run, step: int, count: int) -> None:
    if (run.rank, step, count) == (1, 3, 0):
        os.kill(os.getpid(), signal.SIGTERM)


def test_who_is_told_to_end_leaves_and_the_others_wait(tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path / "checkpoints"), nuisance=terminate_rank_1)
    # So long both have for their parts of what rank 1 saves before it ends.
    left, ended = run_under_spotrun(tmp_path, plan, SPOTRUN_BROKEN_SECONDS="3")
    assert (ended.exit_code, ended.error) == (0, "")  # the agent knows why
    assert read_progress(tmp_path / "worker-1").exiting == "preempted"
    assert read_progress(tmp_path / "worker-0").broken == WORLD
    assert "a process of it was told to end" in left.said
    assert read_progress(tmp_path / "worker-1").checkpoint == f"step-3.g{WORLD}"


def fail_on_rank_0(run: Run, step: int, count: int) -> None:
    if (run.rank, step, count) == (0, 2, 0):
        raise ZeroDivisionError("one over nothing")


def test_a_failure_is_told_with_the_lines_of_the_user(tmp_path: Path) -> None:
    plan = replace(PLAN, nuisance=fail_on_rank_0)
    run_under_spotrun(tmp_path, plan, SPOTRUN_BROKEN_SECONDS="0.3")
    failure = read_progress(tmp_path / "worker-0").failure
    assert failure is not None
    assert failure.startswith("ZeroDivisionError: one over nothing")
    assert "in fail_on_rank_0" in failure
    assert read_progress(tmp_path / "worker-1").failure is not None  # it gave up waiting


def order_in_step_2(run: Run, step: int, count: int) -> None:
    if (run.rank, step, count) == (1, 2, 0):
        write_world(os.environ["SPOTRUN_DIR"], answer(1, orders=1))


def test_an_order_is_a_checkpoint_at_the_end_of_the_step(tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path / "checkpoints"), nuisance=order_in_step_2)
    assert [one.error for one in run_under_spotrun(tmp_path, plan)] == ["", ""]
    names = {path.name for path in (tmp_path / "checkpoints").glob("step-*")}
    assert names == {"step-2.g5", "step-4.g5"}
    told = [read_progress(tmp_path / f"worker-{rank}").checkpoint_orders for rank in range(2)]
    assert told == [0, 1], "each tells which orders it had heard of"


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before_by_all(tmp_path: Path) -> None:
    place = tmp_path / "checkpoints"
    for total in (2, 3, 4):
        run_world(2, train, replace(PLAN, checkpoint=str(place), total=total))
    (place / "step-3.g0/rank-1.safetensors").write_bytes(b"")
    plan = replace(PLAN, checkpoint=str(place))
    for ended in run_under_spotrun(tmp_path, plan, restore="step-3.g0"):
        assert ended.error == "", ended.said
        assert PLAN.total - 2 == len(ended.value.losses)
        assert "step-3.g0/rank-1.safetensors is damaged" in ended.said


def stop_in_step_2(run: Run, step: int, count: int) -> None:
    if (run.rank, step, count) == (0, 2, 0):
        for rank in range(2):
            place = Path(os.environ["SPOTRUN_DIR"]).with_name(f"worker-{rank}")
            write_world(place, answer(rank, stop_at=1.0))


def test_past_its_time_the_world_saves_and_departs(tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path / "checkpoints"), nuisance=stop_in_step_2)
    ended = run_under_spotrun(tmp_path, plan)
    assert [one.exit_code for one in ended] == [0, 0]
    for rank in range(2):
        progress = read_progress(tmp_path / f"worker-{rank}")
        assert (progress.exiting, progress.checkpoint) == ("departed", "step-2.g5")


def test_the_world_says_where_to_begin(tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path / "checkpoints"), nuisance=order_in_step_2)
    run_under_spotrun(tmp_path, plan)
    plan = replace(plan, nuisance=None, total=3)
    ended = run_under_spotrun(tmp_path, plan, restore="step-2.g5")
    assert "continuing from step-2.g5" in ended[0].said
    assert [len(one.value.losses) for one in ended] == [1, 1]


def test_a_damaged_checkpoint_before_which_there_is_none_is_an_error(tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path / "checkpoints"))
    run_under_spotrun(tmp_path, plan)
    (tmp_path / "checkpoints/step-4.g5/rank-0.json").write_text("{}")
    for ended in run_under_spotrun(tmp_path, plan, restore="step-4.g5"):
        assert "step-4.g5/rank-0.json is damaged" in ended.error


def test_without_a_name_training_goes_on_from_the_newest_that_is_there(tmp_path: Path) -> None:
    place = tmp_path / "checkpoints"
    for total in (2, 3):
        run_world(2, train, replace(PLAN, checkpoint=str(place), total=total))
    (place / "step-9.g7").mkdir()  # half-made
    (place / "step-9.g7/rank-0.json").write_text("{}")
    ended = run_under_spotrun(tmp_path, replace(PLAN, checkpoint=str(place)))
    assert [len(one.value.losses) for one in ended] == [1, 1]
    assert f"continuing from step-3.g0, found in {place}" in ended[0].said
    for rank in range(2):
        progress = read_progress(tmp_path / f"worker-{rank}")
        assert (progress.restored, progress.checkpoint) == ("step-3.g0", "step-4.g5")


def order_in_the_second_of_two_steps(run: Run, step: int, count: int) -> None:
    if (run.rank, step % 2, count) == (0, 0, 0):
        for rank in range(2):
            place = Path(os.environ["SPOTRUN_DIR"]).with_name(f"worker-{rank}")
            write_world(place, answer(rank, orders=1))


def test_orders_that_an_earlier_job_has_followed_are_none_of_this_one(tmp_path: Path) -> None:
    nuisance = order_in_the_second_of_two_steps
    plan = replace(PLAN, checkpoint=str(tmp_path / "checkpoints"), nuisance=nuisance)
    for total in (3, 5):
        ended = run_under_spotrun(tmp_path, replace(plan, total=total))
        assert [one.error for one in ended] == ["", ""]
    names = {path.name for path in (tmp_path / "checkpoints").glob("step-*")}
    assert names == {"step-2.g5", "step-3.g5", "step-4.g5", "step-5.g5"}


def test_a_training_that_was_complete_is_complete_at_once(tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path / "checkpoints"))
    for _ in range(2):
        ended = run_under_spotrun(tmp_path, plan)
        assert [one.error for one in ended] == ["", ""]
    assert [len(one.value.losses) for one in ended] == [0, 0]
    progress = read_progress(tmp_path / "worker-0")
    assert progress.completed
    assert (progress.restored, progress.checkpoint) == ("step-4.g5", "step-4.g5")
    assert (progress.step, progress.total) == (4, 4)


def test_of_several_without_a_name_the_damaged_ones_are_passed_over(tmp_path: Path) -> None:
    place = tmp_path / "checkpoints"
    for total in (2, 3):
        run_world(2, train, replace(PLAN, checkpoint=str(place), total=total))
    (place / "step-3.g0/rank-1.safetensors").write_bytes(b"")
    for ended in run_under_spotrun(tmp_path, replace(PLAN, checkpoint=str(place))):
        assert ended.error == "", ended.said
        assert len(ended.value.losses) == 2
    (place / "step-2.g0/rank-0.json").write_text("{}")
    (place / "step-4.g5/COMPLETE").unlink()
    for ended in run_under_spotrun(tmp_path, replace(PLAN, checkpoint=str(place))):
        assert "step-2.g0/rank-0.json is damaged" in ended.error
        assert f"choose another place than {place}" in ended.error


def test_a_checkpoint_of_another_model_is_refused_with_its_folder(tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path / "checkpoints"))
    run_under_spotrun(tmp_path, plan)
    for ended in run_under_spotrun(tmp_path, replace(plan, with_batch_norm=False)):
        assert "step-4.g5 cannot be loaded: the state does not fit what is tracked" in ended.error
        assert f"choose another place than {plan.checkpoint} (in a TrainingJob: give" in ended.error
    for ended in run_under_spotrun(tmp_path, replace(plan, deterministic=True)):
        assert "a checkpoint that was made without it" in ended.error
        assert "or remove that folder" in ended.error


def test_a_place_that_cannot_be_written_is_refused_before_the_first_step(tmp_path: Path) -> None:
    place = tmp_path / "volume" / "job"
    place.parent.write_text("no directory")
    for ended in run_under_spotrun(tmp_path, replace(PLAN, checkpoint=str(place))):
        assert ended.error.startswith(f"ValueError: checkpoints cannot be written to {place} by")
    for rank in range(2):
        progress = read_progress(tmp_path / f"worker-{rank}")
        assert (progress.entering, progress.step) == (0, 0)
        assert str(progress.failure).startswith("ValueError: checkpoints cannot be written to")
