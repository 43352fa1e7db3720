"""The planned memory of a pipeline's stages, compared with stages that train."""

from dataclasses import asdict
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from spotrun.cli.plan.stages import CUTS_PER_STAGE, stage_of
from spotrun.cli.plan.strategies import Needs
from spotrun_trainer import Parallel, Run
from spotrun_trainer.loop.memory.blocks import checkpoint_blocks
from spotrun_trainer.loop.memory.live_bytes import LiveBytes
from tests.support.processes.trainer_world import run_world
from tests.unit.trainer.memory import lm
from tests.unit.trainer.memory.test_plan import SCRIPT

STAGES = 2
CUTS = CUTS_PER_STAGE * STAGES  # each has as many samples as the plan has measured
MARGIN = 0.1
"""The margin that docs/which-parallelism.md states."""


class Stage(nn.Module):
    """The layers of one stage."""

    def __init__(self, stage: int) -> None:
        super().__init__()
        whole = lm.LM()
        self.words = whole.words if stage == 0 else None
        own = range(2) if stage == 0 else range(2, 3)
        self.blocks = nn.ModuleDict({str(number): whole.blocks[number] for number in own})
        self.head = whole.head if stage == STAGES - 1 else None

    @override
    def forward(self, x: Tensor) -> Tensor:
        x = x if self.words is None else self.words(x)
        for block in self.blocks.values():
            x = block(x)
        return x if self.head is None else self.head(x)


def taken(variant: str) -> int:
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B  # noqa: PLC0415 - long

    run = Run(seed=1, parallel=Parallel(pipeline=STAGES))
    number = run.mesh.get_local_rank()
    model = Stage(number)
    if variant == "checkpointed":
        checkpoint_blocks(model, "full")
    optimizer = torch.optim.SGD(model.parameters())
    run.track(model=model, optimizer=optimizer)
    found = 0

    def schedule() -> Schedule1F1B:
        own = PipelineStage(model, number, STAGES, run.device, group=run.mesh.get_group())
        return Schedule1F1B(own, n_microbatches=CUTS, loss_fn=loss, scale_grads=False)

    def loss(out: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(out.flatten(0, 1), y.flatten(), reduction="sum")

    for step in run.steps(lm.data(), global_batch=32, microbatch=32, total=2, num_workers=0):
        with step:
            for x, y in step:
                with LiveBytes() as live:
                    hooks = [
                        one.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                            partial(leave_out, live)
                        )
                        for one in model.parameters()
                    ]
                    step.pipeline(schedule, x, target=y, weight=y.numel())
                for hook in hooks:
                    hook.remove()
                found = live.most  # of the second step: in the first a schedule learns shapes
            step.update(optimizer)
    return found


def leave_out(live: LiveBytes, parameter: Tensor) -> None:
    assert parameter.grad is not None
    live.ignore(parameter.grad)


@pytest.mark.parametrize("variant", ["as written", "checkpointed"])
def test_each_stage_takes_what_was_planned(variant: str) -> None:
    needs = Needs.read(asdict(Run.plan(SCRIPT)))
    planned = [stage_of(needs, one, STAGES, variant) for one in range(STAGES)]
    ended = run_world(STAGES, taken, variant)
    assert [one.error for one in ended] == [""] * STAGES
    for stage, one in zip(planned, ended, strict=True):
        assert stage.activation_bytes[variant] == pytest.approx(one.value, rel=MARGIN)
