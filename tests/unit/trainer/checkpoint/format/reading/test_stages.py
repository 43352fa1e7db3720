"""Checkpoints of stages are read by other stages: an optimizer's state follows the names."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from spotrun_trainer.checkpoint import Checkpoints
from spotrun_trainer.state.tracked import Tracked

NAME = "step-1.g0"
LAYERS = ["a", "b", "c", "d"]


class Training:
    """Some layers of a model, and an optimizer that has two groups of their parameters."""

    def __init__(self, layers: Sequence[str], filled: float | None = None, groups: int = 2) -> None:
        self.model = nn.Module()
        for name in layers:
            self.model.add_module(name, nn.Linear(2, 1 + LAYERS.index(name)))
        named = dict(self.model.named_parameters())
        weights = [one for name, one in named.items() if name.endswith("weight")]
        biases = [one for name, one in named.items() if name.endswith("bias")]
        every = [{"params": biases}, {"params": weights}] if groups == 2 else [*named.values()]
        self.optimizer = torch.optim.AdamW(every, lr=0.5 if filled is None else 0.25)
        self.tracked = Tracked()
        self.tracked.add("model", self.model)
        self.tracked.add("optimizer", self.optimizer)
        if filled is not None:
            for name, one in named.items():
                nn.init.constant_(one, filled + LAYERS.index(name[0]))
                one.grad = one.detach() + ord(name[2])
            self.optimizer.step()

    def state(self) -> dict[str, list[Tensor]]:
        """Return what there is of each parameter, by its name."""
        state = self.optimizer.state
        return {
            name: [one.detach(), *(state[one][key] for key in sorted(state[one]))]
            for name, one in self.model.named_parameters()
        }


def save(
    folder: Path, stages: Sequence[Sequence[str]], *, names: bool = True, are_told: bool = True
) -> None:
    """Save the layers of stages, in a process each."""
    for stage, layers in enumerate(stages):
        tracked = Training(layers, filled=1).tracked
        place = checkpoints(folder, stage, len(stages), are_told=are_told)
        parameters = tracked.parameters() if names else {}
        flat = tracked.flatten()
        place.save(NAME, flat, rank=stage, size=len(stages), extra={}, parameters=parameters)
        place.wait(10 if stage == len(stages) - 1 else 0)
        place.close()


def checkpoints(folder: Path, stage: int, stages: int, *, are_told: bool = True) -> Checkpoints:
    told = stages if are_told else 1
    return Checkpoints(folder, keep=1, attempt="x", shard=stage, shards=stages, stages=told)


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (["ab", "cd"], ["abcd"]),
        (["abcd"], ["ab", "cd"]),
        (["ab", "cd"], ["a", "bcd"]),
        (["a", "b", "c", "d"], ["ab", "cd"]),
        (["ab", "cd"], ["ab", "cd"]),
    ],
    ids=str,
)
def test_each_layer_has_its_own_state_wherever_it_is(
    tmp_path: Path, there: list[str], here: list[str]
) -> None:
    save(tmp_path, there)
    expected = Training(LAYERS, filled=1).state()
    for stage, layers in enumerate(here):
        loaded = Training(layers)
        checkpoints(tmp_path, stage, len(here)).load(NAME, loaded.tracked, rank=stage, size=1)
        for name, tensors in loaded.state().items():
            assert all(map(torch.equal, tensors, expected[name])), name
        assert [group["lr"] for group in loaded.optimizer.param_groups] == [0.25, 0.25]


@pytest.mark.parametrize(
    ("stages", "here", "why"),
    [
        (
            ["ab", "cd"],
            Training("abc"),
            "tensors unknown to this script: model/d.bias, model/d.weight",
        ),
        (["ab", "c"], Training("abcd"), "optimizer has no parameter model/d.bias in"),
        (["ab", "cd"], Training("abcd", groups=1), "2 groups of parameters in the checkpoint"),
    ],
)
def test_what_does_not_fit_is_said(
    tmp_path: Path, stages: list[str], here: Training, why: str
) -> None:
    save(tmp_path, stages)
    with pytest.raises(ValueError, match=why):
        checkpoints(tmp_path, 0, 1).load(NAME, here.tracked)


def test_a_state_whose_parameters_have_no_names_is_dealt_to_no_stages(tmp_path: Path) -> None:
    save(tmp_path, ["abcd"], names=False)
    with pytest.raises(ValueError, match="it does not say which parameters optimizer has"):
        checkpoints(tmp_path, 0, 2).load(NAME, Training("ab").tracked)


def test_as_many_stages_go_on_from_a_checkpoint_that_does_not_tell_of_stages(
    tmp_path: Path,
) -> None:
    """As the trainer wrote them before it could deal layers to other stages."""
    save(tmp_path, ["ab", "cd"], names=False, are_told=False)
    expected = Training(LAYERS, filled=1).state()
    for stage, layers in enumerate(["ab", "cd"]):
        loaded = Training(layers)
        checkpoints(tmp_path, stage, 2).load(NAME, loaded.tracked, rank=stage, size=1)
        for name, tensors in loaded.state().items():
            assert all(map(torch.equal, tensors, expected[name])), name
