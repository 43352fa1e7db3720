"""What command lines are given is refused at once where it will not do."""

import argparse
from pathlib import Path

import pytest

from devcluster.argument_types import existing_folder, how_many, writable_file


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", ""])
def test_nothing_can_be_said_of_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' is not a count: use 1"):
        how_many(text)


def test_how_many_is_a_whole_number() -> None:
    assert how_many("12") == 12


def test_a_folder_has_to_be_there(tmp_path: Path) -> None:
    assert existing_folder(str(tmp_path)) == tmp_path
    with pytest.raises(argparse.ArgumentTypeError, match="missing' is not a folder: name"):
        existing_folder(str(tmp_path / "missing"))


def test_a_file_that_cannot_be_written_is_refused_before_hours_of_measuring(tmp_path: Path) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="cannot be written: No such file or dir"):
        writable_file(str(tmp_path / "missing" / "profile"))
    with pytest.raises(argparse.ArgumentTypeError, match="cannot be written: Is a directory"):
        writable_file(str(tmp_path))


def test_a_file_is_left_as_it_is_until_it_is_written(tmp_path: Path) -> None:
    assert writable_file(str(tmp_path / "new")) == tmp_path / "new"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").write_text("figures")
    writable_file(str(tmp_path / "old"))
    assert (tmp_path / "old").read_text() == "figures"
