"""Models that compute in 16 bits: as torch's own policy does, with parameters in 32 bits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.nn.functional import cross_entropy

from spotrun_trainer import Parallel, Run
from spotrun_trainer.loop.memory.blocks import Checkpointing
from spotrun_trainer.parallel.precision import Precision
from tests.support.processes.trainer_world import run_alone, run_world
from tests.unit.trainer.run.fully_sharded import (
    Blocks,
    FullySharded,
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


@pytest.mark.parametrize(
    ("precision", "said"), [("fp16", "GradScaler that is tracked"), ("fp8", 'give "bf16"')]
)
def test_what_cannot_be_done_is_said(precision: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Run().prepare(nn.Linear(2, 2), precision=precision)
