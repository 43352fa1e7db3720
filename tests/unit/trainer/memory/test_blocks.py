"""Blocks that are computed with less memory, or compiled, train as those that are not."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from spotrun_trainer import Run
from spotrun_trainer.loop.memory.live_bytes import LiveBytes
from tests.unit.trainer.memory import lm


class WithDropout(lm.LM):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(lm.Block(), nn.Dropout(0.2)) for _ in range(2))


def losses(**options: Any) -> list[Tensor]:
    run = Run(seed=3)
    model = run.prepare(WithDropout(), **options)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    run.track(model=model, opt=opt)
    found = []
    for step in run.steps(lm.data(), global_batch=16, microbatch=8, total=3):
        with step:
            for x, y in step:
                loss = cross_entropy(model(x).flatten(0, 1), y.flatten())
                step.backward(loss, mean_of=y.numel())
            step.update(opt, clip=1.0)
            found.append(step.loss)
    return found


@pytest.mark.parametrize("kind", ["full", "selective"])
def test_checkpointed_blocks_give_the_same_losses_to_the_bit(kind: str) -> None:
    assert losses(checkpointing=kind) == losses()


def test_checkpointed_blocks_keep_less() -> None:
    def kept(**options: Any) -> int:
        model = Run().prepare(lm.LM(), **options)
        live = LiveBytes()
        with live:
            found = model(lm.data()[:8][0])
        assert found.requires_grad  # so what its backward pass needs is alive
        return live.now

    assert kept(checkpointing="full") < 0.75 * kept()


def test_selectively_checkpointed_blocks_compute_no_matrix_product_again() -> None:
    def operations(**options: Any) -> int:
        model = Run().prepare(lm.LM(), **options)
        with FlopCounterMode(display=False) as counter:
            model(lm.data()[:8][0]).sum().backward()
        return int(counter.get_total_flops())

    plain = operations()
    assert (operations(checkpointing="selective"), operations(checkpointing="full") > plain) == (
        plain,
        True,
    )


def test_names_in_checkpoints_are_those_of_the_plain_model() -> None:
    model = Run().prepare(lm.LM(), checkpointing="full", compile=True)
    assert list(model.state_dict()) == list(lm.LM().state_dict())


def test_each_block_is_compiled_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[nn.Module] = []
    monkeypatch.setattr(nn.Module, "compile", lambda self, *_, **__: compiled.append(self))
    model = Run().prepare(lm.LM(), compile=True)
    assert compiled == list(model.blocks)


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        (nn.Linear(2, 2), {"checkpointing": "full"}, "the entries of an nn.ModuleList"),
        (nn.Linear(2, 2), {"compile": True}, "compile= works on a model's blocks"),
        (lm.LM(), {"checkpointing": "half"}, 'give "full" or "selective"'),
    ],
)
def test_what_cannot_be_done_is_said(model: nn.Module, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Run().prepare(model, **options)
