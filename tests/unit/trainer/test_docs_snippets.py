"""The page on training scripts is true: its snippets run, and its errors are those of the code."""

import ast
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from spotrun.policies.workers.departures import LAST_WORK
from spotrun_trainer import Run
from spotrun_trainer.step.step import Step
from tests.support.processes.trainer_world import run_world

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/write-a-training-script.md"
TEXT = PAGE.read_text()
_ALL = [
    (TEXT.count("\n", 0, found.start()) + 2, found[1])
    for found in re.finditer(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
]
_IN_PARTS = re.compile(r"\b(shards|parallel)=")
SNIPPETS = [(line, source) for line, source in _ALL if not _IN_PARTS.search(source)]
IN_PARTS = [(line, source) for line, source in _ALL if _IN_PARTS.search(source)]


class Model(nn.Sequential):
    def __init__(self, inputs: int = 8, outputs: int = 2) -> None:
        super().__init__(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, outputs))


def points(number: int) -> TensorDataset:
    x = torch.randn(number, 8, generator=torch.Generator().manual_seed(number))
    return TensorDataset(x, (x.sum(dim=1) > 0).long())


def loss_of(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    x, y = batch
    return cross_entropy(model(x), y, reduction="sum"), y.numel()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What the page says that its snippets leave out."""
    for name in ("RANK", "WORLD_SIZE", "SPOTRUN_WORLD_NUMBER", "SPOTRUN_CHECKPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model, generator, critic = Model(), Model(4, 8), Model(8, 1)
    torch.save(Model().state_dict(), tmp_path / "weights.pt")
    yield {
        "__name__": "__main__",
        "torch": torch,
        "cross_entropy": cross_entropy,
        "Run": Run,
        "run": Run(seed=1),
        "Model": Model,
        "model": model,
        "opt": torch.optim.AdamW(model.parameters(), lr=1e-2),
        "generator": generator,
        "opt_g": torch.optim.AdamW(generator.parameters()),
        "critic": critic,
        "opt_c": torch.optim.AdamW(critic.parameters()),
        "train": points(512),
        "val": points(128),
        "loss_of": loss_of,
        "directory": tmp_path / "checkpoints",
        "weights": tmp_path / "weights.pt",
    }
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


def run_snippet(line: int, names: dict[str, Any]) -> None:
    """Run the snippet that begins in this line, as if it stood there alone."""
    source = "\n" * (line - 1) + dict(SNIPPETS)[line]
    exec(compile(source, str(PAGE), "exec"), names)  # noqa: S102 - what is tested


@pytest.mark.parametrize("line", [line for line, _ in SNIPPETS[1:]])
def test_snippets_run_and_train(line: int, names: dict[str, Any]) -> None:
    run_snippet(line, names)

    assert names["run"].step >= 4


@pytest.mark.parametrize("line", [line for line, _ in IN_PARTS])
def test_a_model_in_parts_is_trained_by_two_processes(line: int) -> None:
    ended = run_world(2, train_in_parts, line)

    assert [(one.value, one.error) for one in ended] == [(5, "")] * 2, ended[0].said


def train_in_parts(line: int) -> int:
    """Run the snippet that begins in this line in a process of its own; returns the steps."""
    names: dict[str, Any] = {"torch": torch, "nn": nn, "cross_entropy": cross_entropy, "Run": Run}
    names["train"] = points(512)
    source = "\n" * (line - 1) + dict(IN_PARTS)[line]
    exec(compile(source, str(PAGE), "exec"), names)  # noqa: S102 - what is tested
    run: Run = names["run"]
    return run.step


def test_the_first_snippet_is_a_whole_program_that_learns(
    names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in set(names) - {"__name__"}:
        del names[name]
    run_snippet(SNIPPETS[0][0], names)
    printed = capsys.readouterr().out
    validations = [float(value) for value in re.findall(r"val ([\d.e-]+)", printed)]

    assert len(validations) == 2  # after step 50 and after step 100
    assert validations[1] < 0.2  # from ln 2
    assert validations == sorted(validations, reverse=True)


def test_the_example_of_the_class_runs_as_it_stands(names: dict[str, Any]) -> None:
    assert Run.__doc__ is not None
    exec(dedent(Run.__doc__.split("\n\n")[1]), names)  # noqa: S102 - what is tested

    assert names["run"].step == 100


@pytest.mark.parametrize(
    "text",
    [SNIPPETS[0][1], (ROOT / "README.md").read_text(), Run.__doc__],
    ids=["page", "README", "class"],
)
def test_the_first_example_is_of_a_mean_as_models_return_it(text: str) -> None:
    assert 'reduction="sum"' not in text
    assert "mean_of=y.numel()" in text


def test_checkpoints_of_the_page_are_gone_on_from(names: dict[str, Any]) -> None:
    (line,) = [line for line, source in SNIPPETS if "checkpoint=directory" in source]
    run_snippet(line, names)
    kept = sorted(path.name for path in names["directory"].glob("step-*"))
    best = names["best"].loss
    run_snippet(line, names)

    assert kept == ["step-10.g0", "step-20.g0"]
    assert names["best"].loss == best < 1e9  # restored: no step was left to do
    assert names["run"].step == 20


def sentences() -> list[str]:
    """All texts in the trainer's sources; "..." stands for what is filled in."""
    return [
        "".join(
            str(part.value) if isinstance(part, ast.Constant) else "..."
            for part in (node.values if isinstance(node, ast.JoinedStr) else [node])
        )
        for path in (ROOT / "trainer_image/spotrun_trainer").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    ]


def test_errors_of_the_page_are_those_of_the_code() -> None:
    table = TEXT.partition("## Errors and what they mean")[2]
    rows = re.findall(r"^\| (`.+?`) \| [A-Z]", table, re.MULTILINE)
    said = sentences()
    unsaid = [
        row
        for row in rows
        if not any(has_in_order(text, re.findall(r"`(.+?)`", row)) for text in said)
    ]

    assert len(rows) > 15
    assert unsaid == []


def has_in_order(text: str, parts: list[str]) -> bool:
    places = [text.find(part) for part in parts]
    return places[0] >= 0 and all(before < after for before, after in pairwise(places))


def test_the_page_says_how_long_what_follows_the_loop_may_take() -> None:
    minutes = LAST_WORK.total_seconds() / 60
    assert f"still run {minutes:.0f} min after that are told to end" in " ".join(TEXT.split())


@pytest.mark.parametrize("face", [Run, Step], ids=["run", "step"])
def test_every_public_name_is_on_the_page(face: type) -> None:
    public = {f"{face.__name__.lower()}.{name}" for name in vars(face) if name[0] != "_"}

    assert {name for name in public if name not in TEXT} == set()
