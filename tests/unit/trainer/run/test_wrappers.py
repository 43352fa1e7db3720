"""Models that torch has wrapped are refused before anything is trained with them."""

from typing import Literal

import pytest
import torch
from torch import distributed, nn
from torch.distributed import HashStore  # type: ignore[attr-defined]  # not in __all__
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

from spotrun_trainer import Run
from tests.support.processes.trainer_world import run_alone
from tests.unit.trainer.run.scripts import FEATURES, dataset

Wrapper = Literal["DistributedDataParallel", "FullyShardedDataParallel"]
Way = Literal["prepare", "track", "inside", "beside", "after"]


def wrap(model: nn.Module, wrapper: Wrapper) -> nn.Module:
    if wrapper == "DistributedDataParallel":
        return DistributedDataParallel(model)
    return FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)


def wrapped(wrapper: Wrapper, way: Way) -> str:
    """What the first call that could refuse it said."""
    run = Run()
    distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    plain = nn.Linear(FEATURES, 1)
    if way == "beside":
        run.track(model=plain)
    model = wrap(plain, wrapper)
    try:
        if way == "prepare":
            run.prepare(model)
        elif way == "track":
            run.track(net=model)
        elif way == "inside":
            run.track(net=nn.Sequential(nn.Tanh(), model))
        else:
            if way == "after":
                run.track(model=plain)
            run.steps(dataset(), global_batch=4, microbatch=2, total=1, num_workers=0)
    except ValueError as error:
        return str(error)
    return "not refused"


@pytest.mark.parametrize(
    ("way", "name"),
    [
        ("prepare", "the model"),
        ("track", "net"),
        ("inside", "net"),
        ("beside", "a tracked Linear"),
        ("after", "a tracked Linear"),
    ],
)
@pytest.mark.parametrize("wrapper", ["DistributedDataParallel", "FullyShardedDataParallel"])
def test_a_wrapped_model_is_refused_at_once_and_told_what_to_write(
    wrapper: Wrapper, way: Way, name: str
) -> None:
    ended = run_alone(wrapped, wrapper, way)
    assert ended.error == "", ended.said
    assert ended.value.startswith(f"{name} is wrapped in {wrapper}, which sums gradients over")
    assert "write model = run.prepare(model)" in ended.value
