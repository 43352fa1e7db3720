"""The page on data is true: its snippets run, and it names what there is."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

import spotrun_trainer.data
from spotrun_trainer import Run
from spotrun_trainer.data.formats.dataset import WINDOW
from spotrun_trainer.data.formats.opening import FORMATS
from spotrun_trainer.data.mixing import PLACES
from spotrun_trainer.data.prepare.command_line import main

TEXT = (Path(__file__).parents[4] / "docs/data.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


class Bytes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, 8)
        self.head = nn.Linear(8, 256)

    @override
    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.embedding(tokens))
        return logits


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


@pytest.mark.parametrize("source", SNIPPETS, ids=range(len(SNIPPETS)))
def test_snippets_train(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "SPOTRUN_WORLD_NUMBER", "SPOTRUN_CHECKPOINT"):
        monkeypatch.delenv(name, raising=False)
    (np.arange(10_000) % 200).astype(np.uint16).tofile(tmp_path / "a.bin")
    run, model = Run(seed=1), Bytes()
    opt = torch.optim.SGD(model.parameters())
    run.track(model=model, opt=opt)
    names: dict[str, Any] = {"run": run, "model": model, "opt": opt, "loss_of": loss_of}
    exec(compile(source, "data.md", "exec"), {**names, "tokens": tmp_path})  # noqa: S102

    assert run.step == 4


def test_the_page_names_every_class_suffix_and_number() -> None:
    for kind in FORMATS.values():
        assert f"`{kind.__name__}(where" in TEXT
        assert all(f"`{end}`" in TEXT or end == ".hdf5" for end in kind.suffixes)
    assert f"({WINDOW:,})" in TEXT
    assert f"each {PLACES:,} samples" in TEXT
    assert {*spotrun_trainer.data.__all__} >= {kind.__name__ for kind in FORMATS.values()}


def test_flags_of_the_page_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["data", "prepare", "--help"])
    said = capsys.readouterr().out
    assert all(flag in said for flag in re.findall(r" (--[a-z]+)", TEXT))
