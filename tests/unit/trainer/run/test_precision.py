"""Models that compute in 16 bits: as torch's own policy does, with parameters in 32 bits."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.nn.functional import cross_entropy

from spotrun_trainer import Parallel, Run
from spotrun_trainer.loop.memory.blocks import Checkpointing
from spotrun_trainer.parallel.precision import Precision
from spotrun_trainer.step.loss_guard import OwnScaler
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.run.fully_sharded import (
    Blocks,
    FullySharded,
    divide_layers,
    own_part,
    train_and_show,
    whole_state,
)
from tests.unit.trainer.run.scripts import Trained, dataset

STEPS, MICROBATCH, SHARDS = 5, 4, 2
RATE = 0.5


def values(ended: Any) -> list[Any]:
    assert [one.error for one in ended] == [""] * len(ended), ended[0].said
    return [one.value for one in ended]


def by_run(
    precision: Precision | None = "bf16", checkpointing: Checkpointing | None = None
) -> Trained:
    run = Run(1, parallel=Parallel(shard=SHARDS))
    model = run.prepare(Blocks(), shard=True, precision=precision, checkpointing=checkpointing)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    run.track(model=model, optimizer=optimizer)
    losses = []
    for step in run.steps(
        dataset(),
        global_batch=MICROBATCH * SHARDS,
        microbatch=MICROBATCH,
        total=STEPS,
        shuffle=False,
        num_workers=0,
    ):
        with step:
            for features, classes in step:
                scores = model(features)
                assert scores.dtype is torch.float32
                step.backward(cross_entropy(scores, classes, reduction="sum"), weight=len(classes))
            step.update(optimizer)
            losses.append(float(step.loss))
    return Trained(losses, own_part(model))


def by_torch() -> Trained:
    """The same as scripts for FSDP2 have it."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: PLC0415

    distributed.init_process_group("gloo")
    model = Blocks()
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for block in model.blocks.values():
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    features, classes = dataset().tensors
    losses = []
    for step in range(STEPS):
        first = (step * SHARDS + distributed.get_rank()) * MICROBATCH
        place = slice(first, first + MICROBATCH)
        loss = cross_entropy(model(features[place]).float(), classes[place])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach() / SHARDS
        distributed.all_reduce(mean)
        losses.append(float(mean))
    distributed.destroy_process_group()
    return Trained(losses, own_part(model))


@pytest.mark.parametrize("checkpointing", [None, "full"])
def test_a_sharded_model_learns_what_torchs_own_policy_does(
    checkpointing: Checkpointing | None,
) -> None:
    theirs = values(run_world(SHARDS, by_torch))
    ours = values(run_world(SHARDS, by_run, "bf16", checkpointing))
    for one, other in zip(ours, theirs, strict=True):
        assert one.losses == pytest.approx(other.losses, abs=1e-5)
        for name, part in one.weights.items():
            if name != "seen":  # each process's own there
                assert part.dtype is torch.float32
                torch.testing.assert_close(part, other.weights[name], atol=1e-5, rtol=1e-4)


def test_16_bits_are_not_32() -> None:
    plain = values(run_world(SHARDS, by_run, None))
    assert values(run_world(SHARDS, by_run))[0].losses != pytest.approx(plain[0].losses, abs=1e-5)


@pytest.mark.parametrize(("shard", "tensor"), [(2, 1), (1, 2)])
def test_a_checkpoint_is_one_of_32_bits(shard: int, tensor: int, tmp_path: Path) -> None:
    plan = FullySharded(total=3, global_batch=24, checkpoint=str(tmp_path))
    saved = values(
        run_world(2, train_and_show, replace(plan, shard=shard, tensor=tensor, precision="bf16"))
    )
    (loaded,) = values([run_alone(train_and_show, replace(plan, shard=1))])  # no step is left
    state, expected = whole_state([loaded]), whole_state(saved)
    assert set(state) == set(expected)
    assert all(torch.equal(state[path], expected[path]) for path in expected)
    assert not any(one.dtype is torch.bfloat16 for one in state.values())


def test_a_whole_model_computes_within_autocast() -> None:
    seen = list[torch.dtype]()
    model = Run().prepare(Blocks(), precision="bf16")
    model.blocks["0"].register_forward_hook(lambda _model, _given, found: seen.append(found.dtype))
    scores = model(dataset().tensors[0][:4])
    scores.sum().backward()
    assert (seen, scores.dtype) == ([torch.bfloat16], torch.float32)
    assert {one.dtype for one in model.parameters()} == {torch.float32}
    assert {one.grad.dtype for one in model.parameters() if one.grad is not None} == {torch.float32}


@dataclass(frozen=True)
class Half:
    """A training in float16, in which a loss overflows in one microbatch of one process."""

    precision: Precision | None = "fp16"
    shard: int = 1
    tensor: int = 1
    overflows: bool = False
    without: frozenset[int] = frozenset()  # steps whose losses have no weight
    checkpoint: str | None = None
    total: int = 8


def in_half(plan: Half) -> tuple[Trained, list[str], float]:
    """By step its loss, and why it was skipped; and the scale in the end."""
    run = Run(
        1,
        parallel=Parallel(shard=plan.shard, tensor=plan.tensor),
        checkpoint=plan.checkpoint,
    )
    model = Blocks()
    if plan.tensor > 1:
        divide_layers(model, run)
    model = run.prepare(model, shard=True, precision=plan.precision)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    run.track(model=model, optimizer=optimizer)
    losses, skipped = [], []
    for step in run.steps(
        dataset(), global_batch=16, microbatch=4, total=plan.total, shuffle=False, num_workers=0
    ):
        with step:
            for count, (features, classes) in enumerate(step):
                scores = model(features)
                assert scores.dtype is torch.float32
                is_here = run.rank == run.world_size - 1 and (step.number, count) == (3, 0)
                if plan.overflows and is_here:  # in its gradient alone: 1e3 x 2**16 is no float16
                    scores = scores + (scores - scores.detach()) * 1e3
                weight = 0 if step.number in plan.without else len(classes)
                loss = cross_entropy(scores, classes, reduction="sum")
                step.backward(loss * bool(weight), weight=weight)
            step.update(optimizer, clip=0.5)
            losses.append(float(step.loss))
            skipped.append(step.skipped)
    scaler = [one for one in run._context.things if isinstance(one, OwnScaler)]
    return Trained(losses, own_part(model)), skipped, scaler[0].get_scale() if scaler else 0.0


@pytest.mark.parametrize(
    ("processes", "shard", "tensor"), [(1, 1, 1), (2, 1, 1), (4, 2, 1), (2, 1, 2)]
)
def test_in_float16_all_skip_a_step_that_overflows_anywhere(
    processes: int, shard: int, tensor: int
) -> None:
    plan = Half(shard=shard, tensor=tensor, overflows=True)
    found = values(run_world(processes, in_half, plan))
    # The first scale is too large for sums of losses, which all find out in the same steps.
    empty = frozenset(number for number, why in enumerate(found[0][1], 1) if why)
    assert 3 in empty
    assert len(empty) < plan.total - 3
    plain = values([run_alone(in_half, Half(None, without=empty))])[0][0]
    for trained, skipped, scale in found:
        assert empty == {number for number, why in enumerate(skipped, 1) if why}
        assert "norm of its gradient" in skipped[2]
        assert scale == 2.0 ** (16 - len(empty))
        pairs = enumerate(zip(trained.losses, plain.losses, strict=True), 1)
        applied = [pair for number, pair in pairs if number not in empty]
        assert all(one == pytest.approx(two, abs=2e-2) for one, two in applied)


def test_the_scale_is_in_checkpoints_and_on_all_that_read_them(tmp_path: Path) -> None:
    plan = Half(shard=2, overflows=True, checkpoint=str(tmp_path), total=4)
    saved = values(run_world(2, in_half, plan))
    (_, skipped, scale) = values([run_alone(in_half, replace(plan, shard=1, total=5))])[0]
    assert (skipped, {scale}) == ([""], {one[2] for one in saved})
    assert scale < 2.0**16


def test_a_second_scaler_is_refused() -> None:
    run = Run()
    model = run.prepare(nn.Linear(2, 2), precision="fp16")
    opt = torch.optim.SGD(model.parameters())
    run.track(model=model, opt=opt, scaler=torch.amp.GradScaler("cpu"))
    with pytest.raises(ValueError, match='precision="fp16" has one already'):
        next(iter(run.steps(dataset(), global_batch=4, microbatch=2, total=1)))


def test_what_cannot_be_done_is_said() -> None:
    unknown: Any = "fp8"
    with pytest.raises(ValueError, match='give "bf16" or "fp16"'):
        Run().prepare(nn.Linear(2, 2), precision=unknown)
