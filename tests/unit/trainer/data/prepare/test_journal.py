"""The journal of `spotrun data prepare`: it grows by a line for a group, and outlives a kill."""

import os
from pathlib import Path

import pytest

from spotrun_trainer.data.prepare import journal, plan
from spotrun_trainer.data.prepare.plan import Settings
from spotrun_trainer.data.prepare.prepare import Preparation, prepare

SETTINGS = Settings("bytes", "text", "uint16", 0, 1 << 20, is_packed=False)


def many(tmp_path: Path, number: int) -> Path:
    (folder := tmp_path / "many").mkdir()
    for one in range(number):
        (folder / f"{one:03}.txt").write_text(f"text {one}")
    return folder


@pytest.fixture
def journal_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Return the journal of a preparation that was killed when its groups were done."""
    with monkeypatch.context() as patched:
        patched.setattr(plan, "GROUP_BYTES", 1)
        patched.setattr(Preparation, "_finish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            prepare([many(tmp_path, 3)], tmp_path / "out", SETTINGS, 1)
    return (tmp_path / "out" / journal.NAME).read_bytes()


def test_a_journal_that_was_cut_off_amid_a_line_loses_that_line(
    tmp_path: Path, journal_left: bytes
) -> None:
    last = len(journal_left.splitlines(keepends=True)[-1])
    for cut, num_lost in [(0, 0), (1, 0), (2, 1), (last // 2, 1), (last - 1, 1), (last, 1)]:
        path = tmp_path / "out" / journal.NAME
        path.write_bytes(journal_left[: len(journal_left) - cut])
        assert len(journal.read(tmp_path / "out").done) == 3 - num_lost

    made, num_bytes = prepare([tmp_path / "many"], tmp_path / "out", SETTINGS, 1)
    assert (len(made), num_bytes) == (3, len("text 2"))


def test_a_journal_that_is_damaged_before_its_end_is_refused(
    tmp_path: Path, journal_left: bytes
) -> None:
    first, second, *others = journal_left.splitlines(keepends=True)
    (tmp_path / "out" / journal.NAME).write_bytes(b"".join([first, second[:9], b"\n", *others]))
    with pytest.raises(ValueError, match=r"is not a journal of `spotrun data prepare`"):
        journal.read(tmp_path / "out")


def test_a_journal_takes_a_line_for_a_group_after_its_shards_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, sync = list[tuple[str, int]](), os.fsync

    def noted(descriptor: int) -> None:
        sync(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((path.name, len(journal.read(tmp_path / "out").done)))

    monkeypatch.setattr(plan, "GROUP_BYTES", 1)
    monkeypatch.setattr(os, "fsync", noted)
    prepare([many(tmp_path, 40)], tmp_path / "out", SETTINGS, 1)

    whole = [name for name, _ in synced if name == journal.PART]
    assert len(whole) == 2  # at the beginning and at the end, and not for each group
    lines = [at for at, (name, _) in enumerate(synced) if name == journal.NAME]
    assert [synced[at][1] for at in lines] == [*range(1, 41)]
    for at in lines:
        assert synced[at - 1] == ("out", synced[at][1] - 1)
        assert synced[at - 2][0].endswith(".bin.part")
