"""The folder for checkpoints is made and tried; who cannot write there is told what to do."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from spotrun_trainer.checkpoint import make_writable

STRANGER = 65532  # the user of our image


@contextmanager
def stranger() -> Iterator[None]:
    os.setegid(STRANGER)
    os.seteuid(STRANGER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def test_it_is_made_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "team" / "job"
    for _ in range(2):
        make_writable(folder)
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize("mode", [0o755, 0o2775, 0o777])
def test_in_a_volume_it_is_as_open_as_the_volume(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    make_writable(tmp_path / "team" / "job", is_shared=True)
    made = [tmp_path / "team", tmp_path / "team" / "job"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in made] == [mode, mode]


def test_what_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir(mode=0o700)
    tmp_path.chmod(0o777)
    make_writable(tmp_path / "team", is_shared=True)
    assert stat.S_IMODE((tmp_path / "team").stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("exists", [False, True])
def test_a_user_without_rights_is_told_who_it_is_and_what_to_try(exists: bool) -> None:
    with TemporaryDirectory() as volume:
        Path(volume).chmod(0o755)
        folder = Path(volume) / "team" / "job"
        if exists:
            folder.mkdir(parents=True)
        with stranger(), pytest.raises(ValueError, match="cannot be written") as refused:
            make_writable(folder, is_shared=True)
    owned = folder if exists else volume
    groups = ", ".join(map(str, sorted({STRANGER, *os.getgroups()})))
    assert str(refused.value) == (
        f"checkpoints cannot be written to {folder} by user 65532 (groups {groups}): Permission "
        f"denied; {owned} belongs to user 0, group 0, with mode 755. Make it writable for that "
        "user, or choose another place. In a TrainingJob set securityContext.fsGroup: 65532 in "
        "the template's spec, make an NFS server's export writable for that user, or name another "
        "claim"
    )


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ValueError, match=f"cannot be written to {file} by .*: File exists; "):
        make_writable(file)


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_folder_that_takes_no_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    _failing(monkeypatch, "touch", code)
    with pytest.raises(ValueError, match=f"{os.strerror(code)}; {tmp_path} belongs to user"):
        make_writable(tmp_path)


def test_a_folder_from_which_nothing_can_be_removed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _failing(monkeypatch, "unlink", errno.EPERM)
    with pytest.raises(ValueError, match="Operation not permitted; "):
        make_writable(tmp_path)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_volume_is_not_refused_for_it_may_have_room_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    _failing(monkeypatch, "touch", code)
    make_writable(tmp_path)


def _failing(monkeypatch: pytest.MonkeyPatch, method: str, code: int) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, method, fail)
