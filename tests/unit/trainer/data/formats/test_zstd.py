"""Compressed files in frames: each part is unpacked alone, by the index at the end."""

import io
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.data.formats.zstd import FramedFile, frames_in, unpack, write_frames

PIECES = st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=8)


@given(PIECES, st.data())
def test_each_part_is_read_alone(pieces: list[bytes], data: st.DataObject) -> None:
    file = io.BytesIO()
    assert write_frames(iter(pieces), file) == len(b"".join(pieces))
    frames = frames_in(file)
    assert frames is not None
    framed, content = FramedFile(file.getvalue(), frames), b"".join(pieces)
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, len(content) + 5))

    assert framed.size == len(content)
    assert framed.read(start, stop) == content[start:stop]


def test_others_read_it_too(tmp_path: Path) -> None:
    content = [bytes([number]) * 1000 for number in range(5)]
    with (tmp_path / "packed").open("wb") as file:
        write_frames(iter(content), file)
    unpack(tmp_path / "packed", tmp_path / "whole")
    reader = zstandard.ZstdDecompressor().stream_reader(
        io.BytesIO((tmp_path / "packed").read_bytes()), read_across_frames=True
    )

    assert (tmp_path / "whole").read_bytes() == reader.read() == b"".join(content)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 100, zstandard.compress(b"x" * 1000)])
def test_a_file_without_an_index_has_none(content: bytes) -> None:
    assert frames_in(io.BytesIO(content)) is None
