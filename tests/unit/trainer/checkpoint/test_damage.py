"""A checkpoint that is not what was written is refused, with the file and the reason."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from spotrun_trainer.checkpoint import DamagedCheckpointError
from tests.unit.trainer.checkpoint.states import (
    NAME,
    checkpoints,
    same,
    save,
    small_training,
)

Damage = Callable[[Path], object]


def flip(file: str, at: int) -> Damage:
    def damage(folder: Path) -> None:
        content = bytearray((folder / file).read_bytes())
        content[at] ^= 1
        (folder / file).write_bytes(content)

    return damage


def cut(file: str, size: int) -> Damage:
    return lambda folder: os.truncate(folder / file, (folder / file).stat().st_size + size)


def remove(file: str) -> Damage:
    return lambda folder: (folder / file).unlink()


def link(file: str) -> Damage:
    def damage(folder: Path) -> None:
        shutil.copy(folder / file, folder / "elsewhere")
        (folder / file).unlink()
        (folder / file).symlink_to("elsewhere")

    return damage


def swap(one: str, other: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / one).rename(folder / "between")
        (folder / other).rename(folder / one)
        (folder / "between").rename(folder / other)

    return damage


def directory(file: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / file).unlink()
        (folder / file).mkdir()

    return damage


DAMAGES: dict[str, tuple[Damage, str]] = {
    "a bit of a tensor": (
        flip("rank-1.safetensors", -1),
        r"rank-1.safetensors is damaged: its content is not what was written \(its hash differs\)",
    ),
    "a bit of a header": (
        flip("rank-0.safetensors", 9),
        r"rank-0.safetensors is damaged: its content is not what was written",
    ),
    "a file cut off": (
        cut("rank-1.safetensors", -1),
        r"rank-1.safetensors is damaged: it has \d+ bytes, but \d+ were written",
    ),
    "an empty file": (
        lambda folder: os.truncate(folder / "rank-1.safetensors", 0),
        r"rank-1.safetensors is damaged: it has 0 bytes, but \d+ were written",
    ),
    "a longer file": (
        cut("rank-0.safetensors", 8),
        r"rank-0.safetensors is damaged: it has \d+ bytes, but \d+ were written",
    ),
    "a missing file": (
        remove("rank-1.safetensors"),
        r"rank-1.safetensors is damaged: No such file or directory; load an older checkpoint",
    ),
    "a missing manifest": (
        remove("rank-1.json"),
        r"rank-1.json is damaged: No such file or directory",
    ),
    "a bit of a manifest": (
        flip("rank-0.json", 40),
        r"rank-0.json is damaged: it is not the one that was completed \(its hash differs\)",
    ),
    "swapped files": (
        swap("rank-0.safetensors", "rank-1.safetensors"),
        r"rank-\d.safetensors is damaged: it",
    ),
    "swapped manifests": (
        swap("rank-0.json", "rank-1.json"),
        r"rank-0.json is damaged: it is not the one that was completed",
    ),
    "a link to a file": (
        link("rank-0.safetensors"),
        r"rank-0.safetensors is damaged: Too many levels of symbolic links",
    ),
    "a directory for a file": (
        directory("rank-0.safetensors"),
        r"rank-0.safetensors is damaged: is not a regular file",
    ),
    "no marker": (
        remove("COMPLETE"),
        rf"COMPLETE does not exist: {NAME} was never completed",
    ),
    "half a marker": (
        cut("COMPLETE", -10),
        r"COMPLETE is damaged: it is not readable JSON",
    ),
    "another hash in the marker": (
        flip("COMPLETE", -10),
        r"(rank-1.json|COMPLETE) is damaged",
    ),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_damage_is_named_and_an_older_checkpoint_is_as_good(tmp_path: Path, case: str) -> None:
    older, newer, target = small_training(1), small_training(2), small_training(3)
    save(tmp_path, older.flatten(), "step-9.g1", size=2)
    save(tmp_path, newer.flatten(), NAME, size=2)
    damage, reason = DAMAGES[case]
    damage(tmp_path / NAME)

    with checkpoints(tmp_path) as opened:
        with pytest.raises(DamagedCheckpointError, match=reason):
            opened.load(NAME, target)
        opened.load("step-9.g1", target)

    assert same(older.flatten(), target.flatten())


@pytest.mark.parametrize("place", range(0, 100, 7))
def test_no_bit_can_change_unnoticed(tmp_path: Path, place: int) -> None:
    save(tmp_path, small_training().flatten(), size=2)
    for file in ("rank-0.safetensors", "rank-1.safetensors", "rank-0.json", "rank-1.json"):
        pristine = (tmp_path / NAME / file).read_bytes()
        flip(file, len(pristine) * place // 100)(tmp_path / NAME)

        with checkpoints(tmp_path) as opened, pytest.raises(DamagedCheckpointError, match=file):
            opened.load(NAME, small_training(2))

        (tmp_path / NAME / file).write_bytes(pristine)
