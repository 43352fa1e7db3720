"""Steps that are not applied, by all processes alike, and losses that a GradScaler scales."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor, nn
from torch.amp import GradScaler

from spotrun_trainer import Run
from spotrun_trainer.step import loss_guard
from spotrun_trainer.step.loss_guard import MOST_IN_A_ROW, Scaler
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.run.scripts import FEATURES, dataset

Kind = Literal["no weight", "nan", "inf", "gradient"]


@dataclass(frozen=True)
class Ruin:
    """What is wrong with steps, from one to another."""

    kind: Kind
    first: int = 2
    last: int = 2

    def of(self, loss: Tensor, step: int) -> tuple[Tensor, int]:
        """The loss and its weight."""
        if not self.first <= step <= self.last:
            return loss, 2
        if self.kind == "no weight":
            return loss * 0, 0
        if self.kind == "gradient":  # the root of 0 has a finite value, and no slope
            return loss + (loss * 0).sqrt(), 2
        return loss * float(self.kind), 2


def ruined(
    ruin: Ruin, total: int = 4, place: str | None = None, clip: float | None = 1.0
) -> list[object]:
    """By step: why it was skipped, the weights after it, and the gradient's norm.

    A buffer and a schedule move along.
    """
    run = Run(checkpoint=place, every="1 steps")
    model = run.prepare(nn.Sequential(nn.Linear(FEATURES, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)))
    model.register_buffer("mask", torch.full((1,), -torch.inf))  # is saved as any buffer is
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    run.track(model=model, optimizer=optimizer, schedule=schedule)
    states: list[object] = []
    for step in run.steps(dataset(), global_batch=8, microbatch=2, total=total, num_workers=0):
        with step:
            for count, (features, _) in enumerate(step):
                loss = model(features).square().sum()
                is_ruined = ruin.kind == "no weight" or (run.rank, count) == (0, 0)
                loss, weight = ruin.of(loss, step.number) if is_ruined else (loss, 2)
                step.backward(loss, weight=weight)
            step.update(optimizer, clip=clip, schedule=schedule)
            why = step.skipped
            norm = step.norm.item() if clip is not None else 0.0
        flat = [value.double().sum().item() for value in model.state_dict().values()]
        states.append((why, [*flat, schedule.get_last_lr()[0]], norm))
    return states


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    ("kind", "why", "norms"),
    [
        ("no weight", "the weights of its losses add up to 0", {"0.0"}),
        ("nan", "its loss is nan", {"nan"}),
        ("inf", "its loss is inf", {"nan", "inf"}),
        ("gradient", "the norm of its gradient is nan", {"nan"}),
    ],
)
def test_a_step_that_would_ruin_the_weights_changes_nothing_and_says_its_norm(
    size: int, kind: Kind, why: str, norms: set[str]
) -> None:
    for ended in run_world(size, ruined, Ruin(kind)):
        assert ended.error == "", ended.said
        (_, before, _), (said, after, norm), *rest = ended.value
        assert (said, after) == (why, before)
        assert str(norm) in norms
        assert all(reason == "" for reason, _, _ in rest)
        assert rest[0][1] != after
    assert f"step 2 changes nothing: {why}" in run_world(size, ruined, Ruin(kind))[0].said


def test_a_training_whose_loss_stays_so_ends_and_keeps_its_good_checkpoints(tmp_path: Path) -> None:
    ruin = Ruin("nan", first=3, last=1000)
    for ended in run_world(2, ruined, ruin, 1000, str(tmp_path)):
        last = 2 + MOST_IN_A_ROW
        assert f"{MOST_IN_A_ROW} steps in a row, up to step {last}, were skipped" in ended.error
    # One save at a time, so which of both there is depends on how long they took.
    kept = {path.name for path in tmp_path.iterdir() if (path / "COMPLETE").exists()}
    assert kept
    assert kept <= {"step-1.g0", "step-2.g0"}


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("last", [4, 6])
def test_weights_that_are_not_finite_are_not_saved_and_complete_nothing(
    tmp_path: Path, size: int, last: int
) -> None:
    # Without clip= on a CPU the gradient is not looked at, and its step is applied.
    ruin = Ruin("gradient", first=4, last=4)
    for ended in run_world(size, ruined, ruin, last, str(tmp_path), None):
        assert "NotFiniteError: the weights are not finite, so nothing is saved" in ended.error
    kept = {path.name for path in tmp_path.iterdir() if (path / "COMPLETE").exists()}
    assert kept
    assert kept <= {"step-1.g0", "step-2.g0", "step-3.g0"}


@pytest.mark.parametrize("last", [4, 6])
def test_a_training_of_which_no_place_to_save_is_known_does_not_complete_so_either(
    last: int,
) -> None:
    ended = run_alone(ruined, Ruin("gradient", first=4, last=4), last, None, None)
    assert "the weights are not finite" in ended.error


@pytest.mark.parametrize("ruin", [Ruin("nan", first=2, last=3), Ruin("nan", first=3, last=4)])
def test_steps_that_were_skipped_keep_no_good_weights_from_being_saved(
    tmp_path: Path, ruin: Ruin
) -> None:
    ended = run_alone(ruined, ruin, 4, str(tmp_path))
    assert ended.error == "", ended.said
    assert (tmp_path / "step-4.g0" / "COMPLETE").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_one_number_among_many_that_is_not_finite_is_found(
    monkeypatch: pytest.MonkeyPatch, value: float, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(loss_guard, "_ASKED_AT_ONCE", 4)
    tensors = [torch.zeros(0), torch.ones((), dtype=dtype), torch.ones(3, 3, dtype=dtype)]
    assert loss_guard.are_finite([])
    assert loss_guard.are_finite(tensors)
    for place in range(9):
        spoiled = torch.ones(9, dtype=dtype)
        spoiled[place] = value
        assert not loss_guard.are_finite([*tensors, spoiled.reshape(3, 3)])


@dataclass(frozen=True)
class Recipe:
    """Who scales the loss of fp16's recipe, if anybody, and which steps are empty."""

    by: Literal["the script", "step.backward", "nobody"]
    empty: frozenset[int] = frozenset()
    is_mean: bool = False


def scaled(recipe: Recipe) -> tuple[list[float], list[bool], list[float]]:
    """By step the loss, and whether it was skipped; and the weights in the end."""
    run = Run()
    model = run.prepare(nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    # So large that losses overflow at first.
    scaler = GradScaler("cpu", init_scale=2.0**127, enabled=recipe.by != "nobody")
    run.track(model=model, optimizer=optimizer, scaler=scaler)
    losses, skipped = [], []
    for step in run.steps(dataset(), global_batch=8, microbatch=2, total=24, num_workers=0):
        weight = 0 if step.number in recipe.empty else 2
        with step:
            for features, _ in step:
                losses_of_each = model(features).square()
                loss = losses_of_each.mean() if recipe.is_mean else losses_of_each.sum()
                if recipe.by == "the script":
                    loss = scaler.scale(loss)
                if recipe.is_mean:
                    step.backward(loss, mean_of=weight)
                else:
                    step.backward(loss, weight=weight)
            step.update(optimizer, scaler=scaler)
            losses.append(step.loss.item())
            skipped.append(bool(step.skipped))
    return losses, skipped, model.weight.flatten().tolist()


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("is_mean", [False, True])
@pytest.mark.parametrize("by", ["the script", "step.backward"])
def test_with_a_scaler_a_training_is_one_without_it_that_lacks_the_steps_that_overflow(
    size: int, by: Literal["the script", "step.backward"], *, is_mean: bool
) -> None:
    for ended in run_world(size, scaled, Recipe(by, is_mean=is_mean)):
        assert ended.error == "", ended.said
        losses, skipped, weights = ended.value
        empty = frozenset(number for number, was in enumerate(skipped, 1) if was)
        assert 0 < len(empty) < 24
        plain = run_alone(scaled, Recipe("nobody", empty)).value
        assert plain[1] == skipped
        # What was skipped has a loss here, and no weight there.
        pairs = zip(plain[0], losses, skipped, strict=True)
        assert all(one == pytest.approx(other, rel=1e-5) for one, other, was in pairs if not was)
        assert plain[2] == pytest.approx(weights, rel=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        lambda scaled: scaled / 4,
        lambda scaled: scaled + 0.5,
        lambda scaled: (scaled / 4 + 0.5).mean(),
        lambda scaled: torch.stack([scaled, scaled]).sum(),
    ],
)
def test_a_loss_made_out_of_a_scaled_one_is_neither_scaled_again_nor_taken_as_it_is(
    change: Callable[[Tensor], Tensor],
) -> None:
    scaler = GradScaler("cpu")
    loss = nn.Parameter(torch.ones(())).square()
    with pytest.raises(ValueError, match=r"scaler.scale\(loss\) itself"):
        Scaler(scaler).scaled(change(scaler.scale(loss)))


def scales(found: Iterator[bool], own: GradScaler, theirs: GradScaler) -> list[tuple[float, float]]:
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    ours, pairs = Scaler(own), []
    for is_finite in found:
        theirs.scale((weight * (1.0 if is_finite else float("inf"))).sum()).backward()  # type: ignore[no-untyped-call]
        theirs.step(optimizer)
        theirs.update()
        weight.grad = None
        own.scale(torch.ones(1))
        ours.update(is_finite=is_finite)
        pairs.append((own.get_scale(), theirs.get_scale()))
    return pairs


def test_a_scale_grows_and_shrinks_as_torch_has_it() -> None:
    found = iter([True, True, False, True, True, True, True, False, False, True])
    own, theirs = (GradScaler("cpu", init_scale=8.0, growth_interval=2) for _ in range(2))
    pairs = scales(found, own, theirs)
    assert [one for one, _ in pairs] == [other for _, other in pairs]
    assert own.state_dict() == theirs.state_dict()
