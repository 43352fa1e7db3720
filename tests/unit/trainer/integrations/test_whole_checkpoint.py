import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from spotrun_trainer.integrations.whole_checkpoint import has_whole_files, newest_whole
from tests.support.processes.trainer_world import run_world

FILES = ("model.safetensors", "optimizer.pt", "trainer_state.json")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint-5"
    (folder / "deeper").mkdir(parents=True)
    save_file({"a": torch.ones(64), "b": torch.ones(3)}, folder / FILES[0], {"format": "pt"})
    torch.save({"a": torch.ones(64)}, folder / FILES[1])
    (folder / FILES[2]).write_text('{"global_step": 5}')
    torch.save({"a": torch.ones(64)}, folder / "deeper" / "rng_state_1.pth")
    (folder / "README.md").write_text("")
    return folder


def test_what_frameworks_write_is_whole(checkpoint: Path) -> None:
    assert has_whole_files(checkpoint)
    assert has_whole_files(checkpoint / "optimizer.pt")


@pytest.mark.parametrize("file", [*FILES, "deeper/rng_state_1.pth"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9, 1.0])
def test_a_file_that_is_cut_off_is_seen(checkpoint: Path, file: str, share: float) -> None:
    path = checkpoint / file
    content = path.read_bytes()
    path.write_bytes(content[: min(int(len(content) * share), len(content) - 1)])
    assert not has_whole_files(checkpoint)


def test_the_newest_whole_one_is_taken(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "checkpoint-6").mkdir()
    cut = tmp_path / "checkpoint-7"
    cut.mkdir()
    (cut / "model.safetensors").write_bytes(b"\x40")
    assert newest_whole([cut, tmp_path / "checkpoint-6", checkpoint]) == checkpoint
    assert newest_whole([cut]) is None
    assert newest_whole([tmp_path / "nothing"]) is None


def newest_in_a_view_of_its_own(folder: Path) -> list[str]:
    """Return what is found twice, in a folder of which each rank sees another part."""
    seen = folder / os.environ["RANK"]
    found = [newest_whole(sorted(seen.iterdir(), reverse=True)), newest_whole([])]
    return ["" if one is None else one.name for one in found]


def test_the_first_decides_before_there_is_a_group(tmp_path: Path) -> None:
    for rank, step in ((0, 5), (1, 6)):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / f"{step}.json").write_text("{}")
    env = {"SPOTRUN_WORLD_NUMBER": "1"}
    ended = run_world(2, newest_in_a_view_of_its_own, tmp_path, env=env)
    assert [(one.value, one.error) for one in ended] == [(["5.json", ""], "")] * 2
