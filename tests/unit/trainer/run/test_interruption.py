"""Steps that are discarded, processes that are told to end, and trainings that go on later."""

import errno
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from spotrun_trainer import Run
from spotrun_trainer.checkpoint import saver, storage_retries
from spotrun_trainer.checkpoint.format import writer
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.writer import Part
from spotrun_trainer.checkpoint.places.directory import Place
from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.membership import Membership
from spotrun_trainer.loop import completion
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.run.scripts import (
    Nuisance,
    Plan,
    Trained,
    dataset,
    network,
    optimizer_of,
    train,
)

PLAN = Plan(with_batch_norm=True, with_dropout=True, clip=0.5)
TERMINATED = 128 + signal.SIGTERM


def go_on(_worlds: Membership, _error: Exception) -> None:
    """As if the next world were the same as the one that broke."""


def break_the_world_in_a_microbatch(run: Run, step: int, count: int) -> None:
    if (step, count) == (3, 2):
        break_once(run)


def break_the_world_before_an_update(run: Run, step: int, count: int) -> None:
    if (step, count) == (3, -1):
        break_once(run)


def break_once(run: Run) -> None:
    if Membership.change.__name__ != go_on.__name__:
        Membership.change = go_on  # type: ignore[assignment,method-assign]
        raise PeerLostError(f"a peer of rank {run.rank} is gone")


@pytest.mark.parametrize(
    "nuisance", [break_the_world_in_a_microbatch, break_the_world_before_an_update]
)
@pytest.mark.parametrize("deterministic", [False, True])
def test_a_discarded_step_comes_again_as_if_it_had_never_been(
    nuisance: Nuisance, deterministic: bool
) -> None:
    undisturbed = run_alone(train, replace(PLAN, deterministic=deterministic)).value
    disturbed = run_alone(train, replace(PLAN, deterministic=deterministic, nuisance=nuisance))
    assert disturbed.error == ""
    assert undisturbed.digest == disturbed.value.digest
    assert undisturbed.losses == disturbed.value.losses


def train_and_note() -> dict[str, list[int]]:
    """The steps in which each part of the loop's body was gone through; one is discarded."""
    run = Run(1)
    model = run.prepare(network(PLAN))
    optimizer, _ = optimizer_of(PLAN, model)
    run.track(model=model, optimizer=optimizer)
    noted: dict[str, list[int]] = {"before the update": [], "after it": [], "after the block": []}
    before, after, behind = noted.values()
    for step in run.steps(dataset(), global_batch=8, microbatch=2, total=4, num_workers=0):
        with step:
            for features, classes in step:
                loss = functional.cross_entropy(model(features), classes, reduction="sum")
                step.backward(loss, weight=2)
            before.append(step.number)
            break_the_world_before_an_update(run, step.number, -1)
            step.update(optimizer)
            after.append(step.number)
        behind.append(step.number)
    return noted


def test_only_what_follows_the_update_in_the_block_runs_once_for_every_step() -> None:
    assert run_alone(train_and_note).value == {
        "before the update": [1, 2, 3, 3, 4],
        "after it": [1, 2, 3, 4],
        "after the block": [1, 2, 3, 3, 4],
    }


@pytest.mark.parametrize("size", [1, 3])
def test_a_training_goes_on_where_it_ended_at_another_number_of_processes(
    size: int, tmp_path: Path
) -> None:
    plan = replace(PLAN, deterministic=True)
    whole = run_alone(train, replace(plan, total=6)).value
    saved = replace(plan, checkpoint=str(tmp_path))
    assert run_world(2, train, replace(saved, total=3))[0].error == ""
    ended = run_world(size, train, replace(saved, total=6))
    assert "continuing from step-3.g0" in ended[0].said
    for one in ended:
        assert whole.digest == one.value.digest
        assert whole.losses[3:] == one.value.losses


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path))
    for total in (3, 4):
        run_world(2, train, replace(plan, total=total))
    (tmp_path / "step-4.g0/rank-1.safetensors").write_bytes(b"")
    ended = run_world(2, train, plan)
    assert ended[0].error == ""
    assert "the trainer tries the one before" in ended[0].said
    assert "continuing from step-3.g0" in ended[0].said


def test_only_so_many_checkpoints_are_kept(tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path), every="1 steps", total=8)
    run_alone(train, plan)
    assert (tmp_path / "step-8.g0").exists()
    assert len(list(tmp_path.iterdir())) <= 4  # three, and what becomes durable while some go


def terminate_in_step_3(_run: Run, step: int, count: int) -> None:
    if (step, count) == (3, 1):
        os.kill(os.getpid(), signal.SIGTERM)


def terminate_before_the_update_of_step_3(_run: Run, step: int, count: int) -> None:
    if (step, count) == (3, -1):
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("nuisance", [terminate_in_step_3, terminate_before_the_update_of_step_3])
@pytest.mark.parametrize("size", [1, 2])
def test_at_sigterm_the_step_is_finished_saved_and_left(
    nuisance: Nuisance, size: int, tmp_path: Path
) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path), nuisance=nuisance)
    ended = run_world(size, train, plan) if size > 1 else [run_alone(train, plan)]
    assert [TERMINATED] * size == [one.exit_code for one in ended]
    assert "told to end, after step 3; the newest durable checkpoint: step-3.g0" in ended[0].said
    assert (tmp_path / "step-3.g0/COMPLETE").exists()


def terminate_rank_1_in_step_3(run: Run, step: int, count: int) -> None:
    if (run.rank, step, count) == (1, 3, 0):
        os.kill(os.getpid(), signal.SIGTERM)


def test_if_one_process_is_told_to_end_all_save(tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path), nuisance=terminate_rank_1_in_step_3)
    ended = run_world(2, train, plan)
    assert [one.exit_code for one in ended] == [TERMINATED] * 2
    assert (tmp_path / "step-3.g0/COMPLETE").exists()


def test_a_step_for_which_no_time_is_left_is_dropped(tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path), nuisance=terminate_in_step_3)
    ended = run_alone(train, plan, env={"SPOTRUN_GRACE_SECONDS": "0"})
    assert ended.exit_code == TERMINATED
    assert "step 3 is dropped" in ended.said
    assert "the newest durable checkpoint: none" in ended.said


def be_told_amid_a_long_step_3(run: Run, step: int, count: int) -> None:
    if (step, count) == (3, 1):
        assert run._loop is not None
        run._loop.voter.step_seconds = 3600.0
        os.kill(os.getpid(), signal.SIGTERM)


def test_who_is_alone_saves_what_a_step_began_with_for_which_no_time_is_left(
    tmp_path: Path,
) -> None:
    plan = replace(PLAN, deterministic=True)
    whole = run_alone(train, plan).value
    saved = replace(plan, checkpoint=str(tmp_path))
    ended = run_alone(train, replace(saved, nuisance=be_told_amid_a_long_step_3))
    assert ended.exit_code == TERMINATED
    assert "step 3 is dropped" in ended.said
    assert "the newest durable checkpoint: step-2.g0" in ended.said
    assert whole.digest == run_alone(train, saved).value.digest


def test_a_checkpoint_that_would_come_too_late_is_not_begun(tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path), nuisance=terminate_in_step_3)
    ended = run_alone(train, plan, env={"SPOTRUN_GRACE_SECONDS": "1.5"})
    assert ended.exit_code == TERMINATED
    assert "told to end, after step 3, with too little time to save it" in ended.said
    assert [one.name for one in tmp_path.iterdir()] == ["logs"]


def terminate_before_the_first_step(checkpoint: str) -> None:
    run = Run(checkpoint=checkpoint)
    os.kill(os.getpid(), signal.SIGTERM)
    run.once(lambda: None)


def test_before_the_first_step_sigterm_ends_a_process_as_it_always_does(tmp_path: Path) -> None:
    assert run_alone(terminate_before_the_first_step, str(tmp_path)).exit_code == -signal.SIGTERM


def train_and_evaluate(checkpoint: str, terminate_in_round: int = -1) -> list[float]:
    """Evaluates after every second step; the loss function may pull the plug."""
    run = Run(1, checkpoint=checkpoint or None)
    model = run.prepare(network(PLAN))
    optimizer, _ = optimizer_of(PLAN, model)
    run.track(model=model, optimizer=optimizer)
    rounds = 0

    def loss_function(
        model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, int]:
        nonlocal rounds
        rounds += 1
        if rounds == terminate_in_round:
            os.kill(os.getpid(), signal.SIGTERM)
        assert not model.training
        features, classes = batch
        return functional.cross_entropy(model(features), classes, reduction="sum"), len(classes)

    found = []
    for step in run.steps(dataset(), global_batch=8, microbatch=2, total=4, num_workers=0):
        with step:
            for features, classes in step:
                loss = functional.cross_entropy(model(features), classes, reduction="sum")
                step.backward(loss, weight=2)
            step.update(optimizer)
        if run.every(2):
            found.append(run.evaluate(model, dataset(), loss_function, microbatch=5))
            assert model.training
    return found


def test_an_evaluation_gives_all_processes_the_mean_over_all_samples() -> None:
    alone = run_alone(train_and_evaluate, "").value
    assert len(alone) == 2
    for one in run_world(3, train_and_evaluate, ""):
        assert one.error == "", one.said
        assert alone == pytest.approx(one.value, rel=1e-6)


@pytest.mark.parametrize("size", [1, 2])
def test_an_evaluation_is_given_up_at_sigterm(size: int, tmp_path: Path) -> None:
    arguments = (str(tmp_path), 3)
    ended = (
        run_world(size, train_and_evaluate, *arguments)
        if size > 1
        else [run_alone(train_and_evaluate, *arguments)]
    )
    assert [TERMINATED] * size == [one.exit_code for one in ended]
    assert "told to end, after step 2; the newest durable checkpoint: step-2.g0" in ended[0].said


def train_where_a_file_is_stale(plan: Plan, times: int) -> Trained:
    """Rank 1 cannot open data files so many times, as when a server has failed over."""
    whole, left = Place.open, times

    def stale(place: Place, name: Name, file: str) -> int:
        nonlocal left
        if os.environ["RANK"] == "1" and file.endswith(".safetensors") and left:
            left -= 1
            raise OSError(errno.ESTALE, "Stale file handle", file)
        return whole(place, name, file)

    Place.open = stale  # type: ignore[method-assign,assignment]
    storage_retries.READ_SECONDS = 2.0
    return train(plan)


def test_what_one_rank_cannot_read_for_a_moment_rolls_nobody_back(tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path))
    for total in (3, 4):
        run_world(2, train, replace(plan, total=total))
    for ended in run_world(2, train_where_a_file_is_stale, plan, 1):
        assert ended.error == "", ended.said
        assert len(ended.value.losses) == 1


def test_what_one_rank_cannot_read_at_all_ends_all_and_is_kept(tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path))
    for total in (3, 4):
        run_world(2, train, replace(plan, total=total))
    for ended in run_world(2, train_where_a_file_is_stale, plan, 1000):
        assert "read" in ended.error, ended.said
        assert "UnreadableCheckpointError" in ended.error
    assert (tmp_path / "step-4.g0/COMPLETE").exists()


def train_on_a_full_disk(plan: Plan, times: int) -> Trained:
    """So many tries to write a part fail."""
    whole, left = writer.write_part, times

    def full(place: Place, part: Part, content: memoryview) -> str:
        nonlocal left
        if left:
            left -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(place, part, content)

    saver.write_part = full  # type: ignore[attr-defined,assignment]
    completion.AGAIN_SECONDS = 0.2
    return train(plan)


@pytest.mark.parametrize("size", [1, 2])
def test_the_last_save_is_tried_until_it_succeeds(size: int, tmp_path: Path) -> None:
    plan = replace(PLAN, checkpoint=str(tmp_path))
    for ended in run_world(size, train_on_a_full_disk, plan, 3):
        assert ended.error == "", ended.said
        assert "No space left on device" in ended.said
    assert (tmp_path / "step-5.g0/COMPLETE").exists()
