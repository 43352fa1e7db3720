"""Lanes: the stretches of a data file that are read at the same time."""

import zlib

from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.checkpoint.format.digests import CRC32, crc32_of_both
from spotrun_trainer.checkpoint.format.manifest import Manifest
from spotrun_trainer.checkpoint.format.reading import lanes
from spotrun_trainer.checkpoint.format.reading.lanes import Lane, lanes_of
from spotrun_trainer.checkpoint.format.shard_plan import Slice

HEADER_BYTES = 100
MIB = 1 << 20
ITEM_BYTES = {"doubles": 8, "floats": 4, "bytes": 1}


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_crc_of_a_whole_follows_from_its_stretches(first: bytes, second: bytes) -> None:
    found = crc32_of_both(zlib.crc32(first), zlib.crc32(second), len(second))
    assert found == zlib.crc32(first + second)


@given(st.lists(st.integers(0, 40 * MIB), min_size=3, max_size=3), st.integers(1, 9))
def test_lanes_cover_a_file_once_in_its_order(counts: list[int], most: int) -> None:
    slices = tuple(Slice(name, 7, 7 + n) for name, n in zip(ITEM_BYTES, counts, strict=True))
    size = HEADER_BYTES + sum(one.numel * ITEM_BYTES[one.tensor] for one in slices)
    manifest = Manifest("", 0, 1, HEADER_BYTES, size, "", slices, hashed_by=CRC32)
    found = list(lanes_of(manifest, ITEM_BYTES, most))
    assert len(found) <= most
    assert [one.start for one in found] == [0, *(one.stop for one in found[:-1])]
    assert found[-1].stop == size
    for lane in found:
        data = sum(one.numel * ITEM_BYTES[one.tensor] for one in lane.slices)
        assert data == lane.stop - (lane.start or HEADER_BYTES)
        assert len(found) == 1 or lane is found[-1] or lane.stop - lane.start >= lanes.LANE_BYTES
    assert merged(found) == [one for one in slices if one.numel]


def merged(found: list[Lane]) -> list[Slice]:
    """Put slices together that lanes have cut."""
    whole = list[Slice]()
    for one in (one for lane in found for one in lane.slices):
        if whole and whole[-1].tensor == one.tensor and whole[-1].stop == one.start:
            one = Slice(one.tensor, whole.pop().start, one.stop)  # noqa: PLW2901
        whole.append(one)
    return whole


def test_a_file_of_no_tensors_is_one_lane() -> None:
    manifest = Manifest("", 0, 1, HEADER_BYTES, HEADER_BYTES, "", (), hashed_by=CRC32)
    assert list(lanes_of(manifest, {}, 4)) == [Lane(0, HEADER_BYTES, ())]
