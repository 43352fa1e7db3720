"""The files of checkpoints: durable, exclusive, and never through somebody's link."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.places.directory import MARKER, Place, open_place

NAME = Name(3, 1)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    opened = Place(tmp_path / "deep" / "below")
    opened.make(NAME)
    return opened


def listing(place: Place) -> list[str]:
    return [path.name for path in place.path(NAME).iterdir()]


def test_paths_and_file_addresses_are_places() -> None:
    assert Path("runs/a") == open_place("runs/a")
    assert Path("/data/a") == open_place("file:///data/a")
    assert Path("/data") == open_place(Path("/data"))


@pytest.mark.parametrize("uri", ["http://host/a", "gcs://bucket", "file://host/data"])
def test_other_addresses_are_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="only paths, file:/// addresses of them, and places in"):
        open_place(uri)


def test_of_several_writers_the_first_one_wins(place: Place) -> None:
    place.write_once(NAME, MARKER, b"first", rank=0)
    place.write_once(NAME, MARKER, b"second", rank=1)

    assert place.read(NAME, MARKER) == b"first"
    assert listing(place) == [MARKER]


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_it_is_the_first_one_without_links_too(
    place: Place, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", no_links)

    place.write_once(NAME, MARKER, b"first", rank=0)
    place.write_once(NAME, MARKER, b"second", rank=1)

    assert place.read(NAME, MARKER) == b"first"
    assert listing(place) == [MARKER]


def test_a_file_is_replaced_as_a_whole(place: Place) -> None:
    place.write(NAME, "rank-0.json", b"old", rank=0)
    with os.fdopen(place.open(NAME, "rank-0.json"), "rb") as old:
        place.write(NAME, "rank-0.json", b"new", rank=0)

        assert old.read() == b"old"
    assert place.read(NAME, "rank-0.json") == b"new"


def test_what_a_dead_writer_left_is_in_nobodys_way(place: Place) -> None:
    place.path(NAME, "rank-0.json.0.part").write_bytes(b"half")
    place.path(NAME, "rank-0.safetensors").write_bytes(b"half")

    place.write(NAME, "rank-0.json", b"whole", rank=0)
    os.close(place.create(NAME, "rank-0.safetensors"))

    assert place.read(NAME, "rank-0.json") == b"whole"
    assert place.path(NAME, "rank-0.safetensors").stat().st_size == 0


def test_files_and_directories_are_synced(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)

    place.make(Name(4, 1))
    place.write(NAME, "rank-0.json", b"x", rank=0)
    place.write_once(NAME, MARKER, b"x", rank=0)

    directory = str(place.path(NAME)).rstrip("/")
    part = f"{directory}/rank-0.json.0.part"
    assert [str(place.root), part, directory, f"{directory}/COMPLETE.0.part", directory] == synced


def test_links_are_not_followed(place: Place, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("theirs")
    place.path(NAME, "rank-0.json").symlink_to(secret)
    place.path(NAME, "rank-1.json.1.part").symlink_to(secret)
    (place.root / "step-4.g1").symlink_to(place.path(NAME))

    with pytest.raises(OSError, match="symbolic links"):
        place.read(NAME, "rank-0.json")
    with pytest.raises(OSError, match="below a symbolic link"):
        place.read(Name(4, 1), "rank-0.json")
    with pytest.raises(OSError, match="is a symbolic link"):
        place.make(Name(4, 1))
    place.write(NAME, "rank-0.json", b"ours", rank=0)
    place.write(NAME, "rank-1.json", b"ours", rank=1)

    assert secret.read_text() == "theirs"


@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_only_plain_files_are_opened(place: Place, kind: str) -> None:
    make: Any = {"pipe": os.mkfifo, "directory": os.mkdir}[kind]
    make(place.path(NAME, "rank-0.json"))

    with pytest.raises(OSError, match="is not a regular file"):
        place.read(NAME, "rank-0.json")


def test_a_large_small_file_is_not_read(place: Place) -> None:
    with place.path(NAME, "rank-0.json").open("wb") as file:
        file.truncate(10 << 30)

    with pytest.raises(OSError, match="has more than 16 MiB"):
        place.read(NAME, "rank-0.json")


def test_removing_begins_with_the_marker(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []
    unlink = Path.unlink

    def spy(path: Path, *arguments: bool, **options: bool) -> None:
        removed.append(path.name)
        unlink(path, *arguments, **options)

    for file in ("rank-0.json", "rank-0.safetensors", MARKER, "rank-1.json.1.part"):
        place.path(NAME, file).touch()
    monkeypatch.setattr(Path, "unlink", spy)

    place.remove(NAME)

    assert removed[0] == MARKER
    assert place.names() == []


def test_what_is_gone_already_is_removed(place: Place) -> None:
    place.remove(NAME)
    place.remove(NAME)

    assert place.names() == []
