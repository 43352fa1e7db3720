"""Files that are damaged, cut off or unusual are read right or refused, never read as others."""

import io
import tarfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import zstandard

from spotrun_trainer.data import Parquet, Tar, TokenFile, open_dataset
from spotrun_trainer.data.formats.zstd import FramedFile, frames_in
from tests.unit.trainer.data.formats.files import LENGTH, make_frames, make_tar, tokens_of


def test_a_tar_with_a_damaged_header_does_not_end_there(tmp_path: Path) -> None:
    make_tar(tmp_path / "a", range(9))
    content = bytearray((tmp_path / "a.tar").read_bytes())
    content[4096 : 4096 + 512] = b"x" * 512  # a header of the third file or so
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.tar.* there is no header at byte"):
        Tar(tmp_path)


def add(tar: tarfile.TarFile, name: str, content: bytes = b"", **more: Any) -> None:
    member = tarfile.TarInfo(name)
    for each, value in more.items():
        setattr(member, each, value)
    if "size" not in more:
        member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def test_a_link_in_a_tar_is_the_file_that_it_is_to(tmp_path: Path) -> None:
    name = "folder/" * 30 + "b.txt"  # longer than a header has room for
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        add(tar, "a.txt", b"same")
        add(tar, name, type=tarfile.LNKTYPE, linkname="a.txt")
        add(tar, "../../c.txt", b"no path is opened")
    dataset = Tar(tmp_path)

    assert [dataset[number]["txt"] for number in range(3)] == ["same", "same", "no path is opened"]  # type: ignore[index]
    assert dataset[1]["__key__"] == name.removesuffix(".txt")  # type: ignore[index]


def test_a_file_with_holes_in_a_tar_is_refused(tmp_path: Path) -> None:
    pax = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9999"}
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        add(tar, "a.bytes", b"1\n0\n1\n" + bytes(506) + b"x", pax_headers=pax)
    with pytest.raises(ValueError, match="is sparse"):
        Tar(tmp_path)


def test_a_file_of_zstd_that_was_cut_off_is_not_read_as_a_shorter_one(tmp_path: Path) -> None:
    packed = zstandard.compress(np.random.default_rng(1).bytes(1 << 20))
    (tmp_path / "a.bin.zst").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(ValueError, match="ends in the middle of a frame"):
        TokenFile(tmp_path, length=4)


def test_a_bomb_stops_at_the_limit_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOTRUN_DATA_CACHE_SIZE", "1MB")
    (tmp_path / "a.bin.zst").write_bytes(zstandard.compress(bytes(64 << 20)))
    with pytest.raises(OSError, match="unpacked, it is larger than the whole cache"):
        TokenFile(tmp_path, length=4)


def test_parquet_that_unpacks_to_more_than_the_cache_is_not_written_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOTRUN_DATA_CACHE_SIZE", "1MB")
    rows = 4 << 20
    pq.write_table(pa.table({"a": np.zeros(rows, np.int64)}), tmp_path / "a.parquet")
    with pytest.raises(OSError, match="unpacked, it is larger than the whole cache"):
        Parquet(tmp_path)[0]


def test_the_index_of_the_last_of_several_files_is_not_that_of_all(tmp_path: Path) -> None:
    make_frames(tmp_path / "a", range(5))
    make_frames(tmp_path / "b", range(5, 9))
    parts = [(tmp_path / name).read_bytes() for name in ("a.bin.zst", "b.bin.zst")]

    assert frames_in(io.BytesIO(parts[0] + parts[1])) is None


def test_frames_that_do_not_say_their_size_are_read(tmp_path: Path) -> None:
    make_frames(tmp_path / "a", range(5))
    with (tmp_path / "a.bin.zst").open("rb") as file:
        frames = frames_in(file)
    assert frames is not None
    packer = zstandard.ZstdCompressor(write_content_size=False)
    content = tokens_of(range(5))
    packed = [packer.compress(content[at : at + 10]) for at in range(0, len(content), 10)]
    frames = [one._replace(packed=len(each)) for one, each in zip(frames, packed, strict=True)]
    file_ = FramedFile(b"".join(packed), frames)

    assert file_.read(0, len(content)) == content


def test_a_null_changes_nothing_about_other_rows(tmp_path: Path) -> None:
    rows = {"n": [1, None, 3], "list": [[1, 2], None, [3, None]], "pair": [[1, 2], None, [3, 4]]}
    kinds = {"n": pa.int32(), "list": pa.list_(pa.int64()), "pair": pa.list_(pa.int64(), 2)}
    table = pa.table({name: pa.array(rows[name], kinds[name]) for name in rows})
    pq.write_table(table, tmp_path / "a.parquet")
    first, second, third = (Parquet(tmp_path)[number] for number in range(3))

    assert torch.equal(first["n"], torch.tensor(1, dtype=torch.int32))  # type: ignore[index]
    assert torch.equal(first["list"], torch.tensor([1, 2]))  # type: ignore[index]
    assert torch.equal(third["pair"], torch.tensor([3, 4]))  # type: ignore[index]
    assert third["list"] == [3, None]  # type: ignore[index]
    assert second == dict.fromkeys(rows)


def test_a_number_without_sign_never_becomes_a_negative_one(tmp_path: Path) -> None:
    table = pa.table({"n": pa.array([7, (1 << 64) - 1], pa.uint64())})
    pq.write_table(table, tmp_path / "a.parquet")
    dataset = Parquet(tmp_path)

    assert dataset[0] == {"n": torch.tensor(7)}
    with pytest.raises(ValueError, match="18446744073709551615 is too large for int64"):
        dataset[1]


def test_categories_of_several_groups_of_rows_are_read(tmp_path: Path) -> None:
    parts = [pa.table({"a": pa.array(each).dictionary_encode()}) for each in ("xy", "zy")]
    pq.write_table(pa.concat_tables(parts), tmp_path / "a.parquet", row_group_size=2)

    assert [Parquet(tmp_path)[number]["a"] for number in range(4)] == ["x", "y", "z", "y"]  # type: ignore[index]


def test_an_array_that_lies_in_other_files_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        layout = h5py.VirtualLayout((4,), "i4")
        layout[:] = h5py.VirtualSource("is-gone.h5", "number", (4,))
        file.create_virtual_dataset("number", layout)
    with pytest.raises(ValueError, match=r"number of .*a\.h5 is stored in other files"):
        open_dataset(tmp_path)


def test_the_end_of_a_name_says_how_wide_tokens_are(tmp_path: Path) -> None:
    tokens = np.arange(70_000, 70_000 + LENGTH, dtype="<u4")
    (tmp_path / "a.u32").write_bytes(tokens.tobytes())
    data: Any = TokenFile(tmp_path, length=LENGTH)

    assert data[0].tolist() == tokens.tolist()
    (tmp_path / "b.u16").write_bytes(bytes(8))
    with pytest.raises(ValueError, match=r"only some files .* end with \.u32"):
        TokenFile(tmp_path, length=LENGTH)
