"""`spotrun export`, as a user gives it: what is made, refused and said, and what is left behind."""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict_loader import load as load_dcp

from spotrun.__main__ import main as spotrun
from spotrun_trainer.checkpoint.foreign.saved import Saved
from spotrun_trainer.checkpoint.foreign.writing import safetensors_files
from spotrun_trainer.checkpoint.foreign.writing.safetensors_files import shards_of
from spotrun_trainer.checkpoint.tools.command_line import main
from spotrun_trainer.process.commands.texts import bytes_of_text
from tests.unit.trainer.checkpoint.states import Held, is_same, save, small_training, tracked
from tests.unit.trainer.checkpoint.tools.test_command_line import HEARS, tear

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")

Run = Callable[..., str]
FORMATS = ["safetensors", "torch", "hf", "dcp"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path / "checkpoints", small_training().flatten(), size=2)
    return tmp_path / "checkpoints"


@pytest.fixture
def said(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Export in a directory of its own, with this exit code; returns what was printed."""
    monkeypatch.chdir(folder.parent)

    def run(code: int, *arguments: object, of: str = "checkpoints") -> str:
        assert main(["export", of, *map(str, arguments)]) == code
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return printed.out + printed.err

    return run


def model_state(seed: int = 1) -> dict[str, Tensor]:
    state: dict[str, Tensor] = small_training(seed)._things["model"].state_dict()
    return state


def beside(folder: Path) -> set[str]:
    return {one.name for one in folder.parent.iterdir()} - {"checkpoints"}


def test_safetensors_is_one_file_with_tied_weights_once(folder: Path, said: Run) -> None:
    shown = said(0, "--format", "safetensors", "--output", "out/model.safetensors")
    assert "wrote 7 tensors" in shown
    assert "written once, under another name that shares their storage: 2.weight" in shown
    found = safetensors.torch.load_file("out/model.safetensors")
    expected = model_state()
    with safetensors.safe_open("out/model.safetensors", "pt") as file:
        notes = file.metadata()

    assert set(expected) - set(found) == {"2.weight"}
    assert all(is_same(one, expected[name]) for name, one in found.items())
    assert notes == {"format": "pt", "2.weight": "0.weight"}
    model: Any = small_training(seed=2)._things["model"]
    assert not any(safetensors.torch.load_model(model, "out/model.safetensors"))
    assert is_same(model[2].weight.detach(), expected["2.weight"])


def test_shards_have_an_index_as_of_hugging_face(folder: Path, said: Run) -> None:
    said(0, "--format", "safetensors", "--shard-size", "100", "--output", "out")
    index = json.loads(Path("out/model.safetensors.index.json").read_text())
    expected = model_state()
    found = dict[str, Tensor]()
    for file in sorted(Path("out").glob("*.safetensors")):
        part = safetensors.torch.load_file(file)
        assert all(index["weight_map"][name] == file.name for name in part)
        found |= part

    assert set(index["weight_map"]) == set(found) == set(expected) - {"2.weight"}
    assert all(is_same(one, expected[name]) for name, one in found.items())
    assert index["metadata"]["total_size"] == sum(one.nbytes for one in found.values())


def test_a_file_of_torch_is_the_state_dict(folder: Path, said: Run) -> None:
    said(0, "--format", "torch", "--gather")
    found = torch.load("step-10.g1.pt", weights_only=True)
    mapped = torch.load("step-10.g1.pt", weights_only=True, mmap=True)
    expected = model_state()

    assert list(found) == list(expected)
    assert found._metadata == vars(expected)["_metadata"]
    for name, one in expected.items():
        assert is_same(found[name], one)
        assert is_same(mapped[name], one)
    assert found["0.weight"].data_ptr() == found["2.weight"].data_ptr()


@pytest.mark.parametrize("kind", ["torch", "dcp"])
def test_the_optimizer_goes_with_it(folder: Path, said: Run, kind: str) -> None:
    said(0, "--format", kind, "--with-optimizer", "--output", "both")
    if kind == "dcp":
        dcp_to_torch_save("both", "both.pt")
    found = torch.load("both.pt" if kind == "dcp" else "both", weights_only=True)
    expected: Any = small_training()._things["opt"]
    numbers = {int(key): one for key, one in found["optimizer"]["state"].items()}  # dcp: texts

    assert set(found) == {"model", "optimizer"}
    assert numbers.keys() == expected.state_dict()["state"].keys()
    for number, state in expected.state_dict()["state"].items():
        assert all(is_same(numbers[number][name], one) for name, one in state.items())
    assert found["optimizer"]["param_groups"] == expected.state_dict()["param_groups"]


def test_dcp_loads_in_one_process_in_chunks(
    folder: Path, said: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spotrun_trainer.checkpoint.foreign.writing import dcp as writing  # noqa: PLC0415

    monkeypatch.setattr(writing, "CHUNK_BYTES", 100)
    said(0, "--format", "dcp", "--output", "out")
    expected = model_state()
    found = {name: torch.zeros_like(one) for name, one in expected.items()}
    load_dcp(found, checkpoint_id="out", no_dist=True)
    known: Any = FileSystemReader("out").read_metadata().state_dict_metadata

    assert all(is_same(found[name], one) for name, one in expected.items())
    assert len(known["0.weight"].chunks) == 50


def test_the_model_is_named_where_there_are_several(folder: Path, said: Run) -> None:
    models = {"ema": nn.Linear(2, 2), "model": nn.Linear(2, 3), "sched": Held(at=1)}
    save(folder.parent / "two", tracked(**models).flatten())
    refused = said(2, "--format", "torch", of="two")
    assert "2 modules were tracked: ema (module), model (module), sched (object)" in refused
    assert "choose one of the modules with --object" in refused
    assert "no module was tracked under the name sched" in said(
        2, "--format", "torch", "--object", "sched", of="two"
    )
    said(0, "--format", "torch", "--object", "model", "--output", "model.pt", of="two")

    assert torch.load("model.pt")["weight"].shape == (3, 2)


def test_a_model_within_another_is_named_without_it(folder: Path, said: Run) -> None:
    said(0, "--format", "torch", "--prefix", "1.", "--output", "norm.pt")
    assert set(torch.load("norm.pt")) == {name[2:] for name in model_state() if name[:2] == "1."}

    assert "with lm.; the first name is 0.weight" in said(2, "--format", "torch", "--prefix", "lm.")


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_there_is_replaced_when_forced(folder: Path, said: Run, kind: str) -> None:
    flags = ["--format", kind, "--output", "out"]
    said(0, *flags)
    before = Path("out").stat().st_ino
    assert "out exists already: use --force" in said(2, *flags)
    assert Path("out").stat().st_ino == before
    said(0, *flags, "--force")

    assert Path("out").stat().st_ino != before
    assert beside(folder) == {"out"}


def test_nothing_but_an_export_is_replaced(folder: Path, said: Run) -> None:
    for name in ("home", "link"):
        Path(name).mkdir()
    Path("home/thesis.txt").touch()
    flags = ["--format", "hf", "--force", "--output"]
    assert "has files that no such export has" in said(2, *flags, "home")
    assert "exists and is not a file" in said(2, *["--format", "torch", *flags[2:]], "home")
    assert Path("home/thesis.txt").exists()
    Path("link").rmdir()
    Path("link").symlink_to("home")
    assert "exists and is not a folder" in said(2, *flags, "link")
    Path("empty").mkdir()
    said(0, "--format", "hf", "--output", "empty")

    assert beside(folder) == {"home", "link", "empty"}


@pytest.mark.parametrize(
    ("kind", "there", "why"),
    [
        ("hf", [".metadata", "__0_0.distcp"], "has files that no such export has"),
        ("dcp", [".metadata", "__0_0.distcp", "__1_0.distcp"], "out has __1_0.distcp, which is"),
        ("hf", ["model.safetensors", "tokenizer.json"], "out has tokenizer.json, which is not in"),
        ("dcp", ["model.safetensors"], "has files that no such export has"),
        ("dcp", [".metadata", "model.safetensors"], "out has model.safetensors, which is not in"),
    ],
)
def test_what_another_made_is_not_replaced(
    folder: Path, said: Run, kind: str, there: list[str], why: str
) -> None:
    Path("out").mkdir()
    for name in there:
        Path("out", name).touch()
    assert why in said(2, "--format", kind, "--force", "--output", "out")
    assert {one.name for one in Path("out").iterdir()} == {*there}
    assert beside(folder) == {"out"}


def test_an_export_is_replaced_by_one_of_another_number_of_files(folder: Path, said: Run) -> None:
    flags = ["--format", "hf", "--force", "--output", "out"]
    said(0, *flags, "--shard-size", "100")
    assert len(list(Path("out").iterdir())) > 2
    said(0, *flags)
    assert [one.name for one in Path("out").iterdir()] == ["model.safetensors"]
    said(0, *flags, "--shard-size", "100")
    assert not Path("out/model.safetensors").exists()


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--format", "hf", "--with-optimizer"], "hf cannot contain an optimizer"),
        (["--format", "dcp", "--gather"], "--gather makes one file, and dcp is a folder"),
        (["--format", "dcp", "--shard-size", "1GB"], "--shard-size is for safetensors and hf"),
        (["--format", "torch", "--config", "."], "--config is for hf, not for torch"),
        (["--format", "hf", "--config", "."], ". has no config.json: give --config a"),
        (["--format", "torch", "--with-optimizer", "adam"], "tracked under the name adam"),
        (["--format", "torch", "--output", ".."], ".. exists and is not a file"),
        (["--format", "torch", "--output", "s3://bucket/m.pt"], "exports are made on a disk"),
    ],
)
def test_errors_say_what_to_try(folder: Path, said: Run, flags: list[str], complaint: str) -> None:
    assert complaint in said(2, *flags)
    assert not beside(folder)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_damaged_checkpoint_is_refused(folder: Path, said: Run, kind: str) -> None:
    torn = tear(folder / "step-10.g1", "rank-1.safetensors")
    reason = f"{torn.relative_to(folder.parent)} is damaged: its content is not what was written"
    assert reason in said(2, "--format", kind)
    assert not beside(folder)
    said(0, "--format", kind, "--no-verify")
    os.truncate(torn, 100)
    assert "it has 100 bytes" in said(2, "--format", kind, "--no-verify", "--output", "other")


def test_types_that_safetensors_has_not_are_refused(folder: Path, said: Run) -> None:
    model = nn.Module()
    model.register_buffer("wave", torch.ones(2, dtype=torch.complex128))
    save(folder.parent / "odd", tracked(model=model).flatten())
    assert "wave is of type complex128" in said(2, "--format", "hf", of="odd")
    said(0, "--format", "torch", "--output", "odd.pt", of="odd")

    assert is_same(torch.load("odd.pt")["wave"], torch.ones(2, dtype=torch.complex128))


def test_a_full_disk_leaves_nothing(
    folder: Path, said: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(safetensors_files, "write_all", fail)
    monkeypatch.setattr(Saved, "fill", fail)
    for kind in FORMATS:
        assert "no space left on device" in said(2, "--format", kind)
    assert not beside(folder)


# It hears Ctrl-C amid the writing, and the signal that a pod is ended with as well.
PAUSED = """
import time
from spotrun_trainer.checkpoint.foreign.saved import Saved
from spotrun_trainer.checkpoint.foreign.writing import safetensors_files
from spotrun_trainer.process.commands.progress import Progress

def add(self, count):
    print("writing", flush=True)
    while True:  # a signal that comes just before a sleep does not end that
        time.sleep(0.01)

safetensors_files.write_all = lambda write, piece: add(None, 0)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_nothing(folder: Path, number: int) -> None:
    asked = ["export", "checkpoints", "--format", "hf", "--output", "out"]
    exporting = subprocess.Popen(
        [sys.executable, "-c", PAUSED + HEARS.format(asked=asked)],
        cwd=folder.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert exporting.stdout is not None
    assert exporting.stdout.readline() == "writing\n"
    assert len(beside(folder)) == 1
    exporting.send_signal(number)
    _, err = exporting.communicate(timeout=60)

    assert exporting.returncode == 130
    assert err.strip() == "spotrun export: interrupted before its end"
    assert not beside(folder)


def test_the_script_of_the_operator_hands_over(folder: Path, said: Run) -> None:
    assert spotrun(["export", str(folder), "--format", "torch", "--output", "x.pt"]) == 0
    assert set(torch.load("x.pt")) == set(model_state())


def test_shards_are_as_large_as_may_be() -> None:
    sizes = {"a": 4, "b": 5, "c": 2, "huge": 20, "d": 1}

    assert shards_of(sizes, 9) == [["a", "b"], ["c"], ["huge"], ["d"]]
    assert shards_of(sizes, None) == [[*sizes]]


@pytest.mark.parametrize(
    ("text", "size"),
    [("5GB", 5 * 10**9), ("1.5 MiB", 3 << 19), ("200", 200), ("7k", 7000)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert bytes_of_text(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "5XB", "0", "1e9", "0.1"])
def test_other_texts_are_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        bytes_of_text(text)
