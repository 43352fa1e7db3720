"""The commands on checkpoints, as a user gives them: output, errors and exit codes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from spotrun.__main__ import main as spotrun
from spotrun_trainer.checkpoint.tools.command_line import main
from tests.unit.trainer.checkpoint.states import Held, save, small_training, tracked

Run = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two complete checkpoints of two processes each, and one that was cut off."""
    for number in (1, 2):
        flat = small_training(steps=number).flatten()
        save(tmp_path, flat, f"step-{number}.g1", size=2)
    save(tmp_path, small_training().flatten(), "step-3.g1", size=2, ranks=range(1))
    return tmp_path


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command that is to end with this code; returns what it printed."""

    def run(code: int, *arguments: object) -> str:
        assert main(["checkpoints", *map(str, arguments)]) == code
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return printed.out + printed.err

    return run


def tear(folder: Path, file: str) -> Path:
    """Change one byte in the midst of a file."""
    path = folder / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return path


def test_ls_tells_complete_ones_from_others(folder: Path, said: Run) -> None:
    (folder / "notes").mkdir()
    rows = [line.split() for line in said(0, "ls", folder).splitlines()]

    assert rows[0][:2] == ["NAME", "STATE"]
    assert [row[:2] for row in rows[1:]] == [
        ["step-1.g1", "complete"],
        ["step-2.g1", "complete"],
        ["step-3.g1", "incomplete"],
    ]
    assert rows[1][-2:] == ["2", "processes"]


def test_ls_says_which_file_is_cut_off(folder: Path, said: Run) -> None:
    data = folder / "step-2.g1/rank-1.safetensors"
    os.truncate(data, 100)
    shown = said(0, "ls", folder)

    assert "step-2.g1  damaged" in shown
    assert f"{data} is damaged: it has 100 bytes" in shown


def test_ls_as_json_has_sizes_and_ages(folder: Path, said: Run) -> None:
    found = json.loads(said(0, "ls", folder, "-o", "json"))
    sizes = [sum(file.stat().st_size for file in path.iterdir()) for path in checkpoints(folder)]

    assert [one["bytes"] for one in found] == sizes
    assert all(0 <= one["age_seconds"] < 600 for one in found)
    assert [one["step"] for one in found] == [1, 2, 3]


def checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*"))


def test_show_has_tensors_values_and_what_shares_storage(folder: Path, said: Run) -> None:
    shown = said(0, "show", folder)

    assert shown.startswith("step-2.g1 in ")  # the newest complete one
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "model/0.weight float32 [50, 16] 1" in lines
    assert "model/2.weight float32 [50, 16] 1 is model/0.weight" in lines
    assert any(line.startswith("opt optimizer 9 ") and line.endswith("lr 0.1") for line in lines)
    assert 'of: "step-2.g1"' in lines


def test_show_as_json_is_of_the_one_that_is_named(folder: Path, said: Run) -> None:
    found = json.loads(said(0, "show", folder / "step-1.g1", "-o", "json"))

    assert found["name"] == "step-1.g1"
    assert found["tracked"] == {"model": "module", "opt": "optimizer"}
    assert found["tensors"]["opt/state/0/step"] == {"dtype": "float32", "shape": [], "parts": 1}


def test_verify_of_a_folder_is_of_all(folder: Path, said: Run) -> None:
    assert said(0, "verify", folder).splitlines() == [
        "step-1.g1: whole (5 files)",
        "step-2.g1: whole (5 files)",
        "step-3.g1: incomplete, so no training starts from it",
    ]
    assert "incomplete" in said(1, "verify", folder / "step-3.g1")


@pytest.mark.parametrize("file", ["rank-0.safetensors", "rank-1.json"])
def test_verify_names_every_torn_file(folder: Path, said: Run, file: str) -> None:
    torn = tear(folder / "step-1.g1", file)
    shown = said(1, "verify", folder)

    assert f"step-1.g1: damaged\n  {torn} is damaged: " in shown
    assert "step-2.g1: whole" in shown


def test_verify_goes_on_after_the_first_torn_file(folder: Path, said: Run) -> None:
    torn = [tear(folder / "step-1.g1", f"rank-{rank}.safetensors") for rank in range(2)]
    shown = said(1, "verify", folder / "step-1.g1")

    assert all(str(path) in shown for path in torn)


def test_diff_of_the_same_is_equal(folder: Path, said: Run) -> None:
    assert said(0, "diff", folder / "step-2.g1", folder) == "0 tensors differ, 16 are equal\n"


def test_diff_has_the_largest_difference_of_each_tensor(tmp_path: Path, said: Run) -> None:
    one, other = torch.arange(5_000_000.0), torch.arange(5_000_000.0)
    other[[3, 4_999_999]] += torch.tensor([0.5, 2.0])
    states = {
        "a": tracked(own=Held(x=one, gone=torch.ones(2), same=torch.ones(3), lr=0.1, wide=one[:2])),
        "b": tracked(
            own=Held(x=other, new=torch.ones(2), same=torch.ones(3), lr=0.2, wide=one[:3])
        ),
    }
    for name, state in states.items():
        save(tmp_path / name, state.flatten(), "step-1.g0")
    found = json.loads(said(1, "diff", tmp_path / "a", tmp_path / "b", "-o", "json"))

    assert found == {
        "only_in_first": ["own/gone"],
        "only_in_second": ["own/new"],
        "retyped": {"own/wide": ["float32[2]", "float32[3]"]},
        "tensors": [{"name": "own/x", "elements": 2, "max_abs_difference": 2.0}],
        "values": {
            "own/gone": ['{"$tensor": "own/gone"}', '"nothing"'],
            "own/lr": ["0.1", "0.2"],
            "own/new": ['"nothing"', '{"$tensor": "own/new"}'],
        },
        "equal": 1,
    }
    text = said(1, "diff", tmp_path / "a", tmp_path / "b")
    assert "own/lr: 0.1 -> 0.2" in text
    assert "own/x   2         2" in text


def test_diff_shows_what_is_no_number_first(tmp_path: Path, said: Run) -> None:
    wrong = torch.tensor([float("nan"), 1.0])
    for name, worst in (("a", torch.ones(2)), ("b", wrong)):
        state = tracked(own=Held(fine=torch.ones(2) * len(name), x=worst, y=worst * 9))
        save(tmp_path / name, state.flatten(), "step-1.g0")
    shown = said(1, "diff", tmp_path / "a", tmp_path / "b").splitlines()

    assert shown[1].split() == ["own/x", "1", "nan"]


def test_rm_keeps_the_newest_complete_one(folder: Path, said: Run) -> None:
    shown = said(2, "rm", "--yes", folder / "step-1.g1", folder / "step-2.g1")

    assert "step-2.g1 is the newest complete one" in shown
    assert "Nothing was removed; use --force" in shown
    assert "a training may be writing it" in said(2, "rm", "--yes", folder / "step-3.g1")
    assert len(checkpoints(folder)) == 3


def test_rm_removes_what_is_older(folder: Path, said: Run) -> None:
    assert said(0, "rm", "--yes", folder / "step-1.g1") == f"removed {folder / 'step-1.g1'}\n"
    assert [one.name for one in checkpoints(folder)] == ["step-2.g1", "step-3.g1"]


def test_rm_removes_all_when_forced(folder: Path, said: Run) -> None:
    said(0, "rm", "--yes", "--force", *checkpoints(folder))

    assert checkpoints(folder) == []


def test_rm_leaves_files_of_others(folder: Path, said: Run) -> None:
    note = folder / "step-1.g1/note.txt"
    note.touch()

    assert f"{note.parent} stays" in said(0, "rm", "--yes", note.parent)
    assert list(note.parent.iterdir()) == [note]


@pytest.mark.parametrize(("answer", "left"), [("y", 2), ("n", 3), ("", 3)])
def test_rm_asks_before(folder: Path, answer: str, left: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "spotrun_trainer", "checkpoints", "rm", str(folder / "step-1.g1")],
        input=f"{answer}\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert f"remove {folder / 'step-1.g1'} for good?" in ran.stdout
    assert ran.returncode == (0 if left == 2 else 1)
    assert len(checkpoints(folder)) == left


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["ls", "nowhere"], "nowhere is not a folder: give the one that Run(checkpoint=...)"),
        (["show", "empty"], "empty contains no complete checkpoint: empty contains no"),
        (["show", "step-7.g1"], "step-7.g1 does not exist: . contains 3, and the newest is"),
        (["show", "step-3.g1"], "step-3.g1/COMPLETE does not exist: step-3.g1 was never completed"),
        (["verify", "empty"], "empty contains no checkpoint step-N.gG"),
        (["rm", "empty"], "empty is not the path of a checkpoint: give FOLDER/step-N.gG"),
        (["ls", "https://bucket"], "checkpoints cannot be kept in https://bucket"),
    ],
)
def test_errors_say_what_to_try(
    folder: Path,
    said: Run,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    complaint: str,
) -> None:
    monkeypatch.chdir(folder)
    Path("empty").mkdir()

    assert complaint in said(2, *arguments)


def test_the_script_of_the_operator_hands_over(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spotrun(["checkpoints", "ls", str(folder)]) == 0
    assert "step-2.g1  complete" in capsys.readouterr().out


# What a shell runs in the background is started with the signal ignored, and so are its children.
HEARS = """
import signal
import sys

from spotrun_trainer.checkpoint.tools.command_line import main

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main({asked}))
"""


def test_ctrl_c_ends_a_command_without_a_traceback(tmp_path: Path) -> None:
    save(tmp_path, tracked(own=Held(x=torch.zeros(1))).flatten(), "step-1.g0")
    asked = ["checkpoints", "rm", "--force", str(tmp_path / "step-1.g0")]
    asking = subprocess.Popen(
        [sys.executable, "-c", HEARS.format(asked=asked)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert asking.stdout is not None
    assert asking.stdout.read(len("remove ")) == "remove "  # it asks, and waits
    asking.send_signal(signal.SIGINT)
    _, err = asking.communicate(timeout=60)

    assert asking.returncode == 130
    assert err.strip() == "spotrun checkpoints rm: interrupted before its end"
    assert len(checkpoints(tmp_path)) == 1


def test_nobody_reads_the_output(folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        [sys.executable, "-m", "spotrun_trainer", "checkpoints", "show", str(folder)],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    os.close(writer)

    assert (ran.returncode, ran.stderr) == (141, b"")
