"""Several processes read a checkpoint together: each byte once, and an error of one is of all."""

from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import Tensor
from typing_extensions import override

from spotrun_trainer.checkpoint import (
    Checkpoints,
    DamagedCheckpointError,
    UnreadableCheckpointError,
    checkpoints,
    storage_retries,
)
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.reading import together
from spotrun_trainer.checkpoint.format.reading.together import Together
from spotrun_trainer.parallel.division import Box, Division
from spotrun_trainer.state.flatten import Flat
from spotrun_trainer.state.tracked import Tracked
from tests.support.processes.stub_group import in_threads, stub_groups
from tests.support.storage.counted import CountedPlace
from tests.unit.trainer.checkpoint.states import NAME, Held, is_same, same, small_training, tracked

CPU = torch.device("cpu")


def opened(place: CountedPlace, *, shard: int = 0, shards: int = 1) -> Checkpoints:
    with mock.patch.object(checkpoints, "open_storage", return_value=place):
        return Checkpoints(Path("memory"), keep=2, attempt="one", shard=shard, shards=shards)


def saved(flat: Flat, size: int) -> CountedPlace:
    place = CountedPlace()
    ranks = [opened(place) for _ in range(size)]
    for rank, one in enumerate(ranks):
        one.save(NAME, flat, rank=rank, size=size, extra={"of": NAME})
    for one in ranks:
        assert one.wait(10.0)
        one.close()
    place.counts.clear()
    return place


def load_together(place: CountedPlace, targets: list[Tracked]) -> list[Exception | None]:
    """Load in so many threads; returns the error of each."""
    groups = stub_groups(len(targets))
    ranks = [opened(place) for _ in targets]

    def load(rank: int) -> Exception | None:
        readers = Together(groups[rank], CPU)
        try:
            extra = ranks[rank].load(
                NAME, targets[rank], rank=rank, size=len(targets), readers=readers
            )
        except (DamagedCheckpointError, UnreadableCheckpointError) as error:
            return error
        assert extra == {"of": NAME}
        return None

    return in_threads(len(targets), load)


def of_many_kinds() -> dict[str, Tensor]:
    torch.manual_seed(3)
    large = torch.randn(300, 500)
    return {
        "large": large,
        "columns": torch.randn(40, 30).t(),
        "channels": torch.randn(2, 3, 5, 7).to(memory_format=torch.channels_last),
        "half": torch.randn(999).to(torch.bfloat16),
        "tiny": torch.randn(64).to(torch.float8_e4m3fn),
        "flags": torch.arange(77) % 3 == 0,
        "complex": torch.randn(33, dtype=torch.complex64),
        "count": torch.tensor(7),
        "none": torch.empty(0, 4),
        "again": large,
    }


@pytest.fixture
def _everything_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "SHARE_BYTES", 0)
    monkeypatch.setattr(together, "CHUNK_BYTES", 10_000)


@pytest.mark.usefixtures("_everything_is_shared")
@pytest.mark.parametrize(("writers", "readers"), [(1, 3), (3, 2), (4, 7), (5, 5)])
def test_all_get_each_bit_and_the_store_sends_it_once(writers: int, readers: int) -> None:
    content = of_many_kinds()
    place = saved(tracked(held=Held(**content)).flatten(), writers)
    sizes = {file.name: file.bytes for file in place.files(Name.parse(NAME))}
    place.counts.clear()
    empty = [
        Held(**{name: torch.zeros_like(one) for name, one in content.items()})
        for _ in range(readers)
    ]

    assert load_together(place, [tracked(held=one) for one in empty]) == [None] * readers

    for one in empty:
        assert all(is_same(one.content[name], content[name]) for name in content)
    assert place.counts["bytes"] == sum(sizes.values())
    assert place.counts["opens"] == 1 + 3 * writers


@pytest.mark.usefixtures("_everything_is_shared")
def test_a_training_goes_on_with_what_others_read() -> None:
    before = small_training(1)
    place = saved(before.flatten(), 2)
    targets = [small_training(seed, steps=0) for seed in (2, 3, 4)]
    assert load_together(place, targets) == [None] * 3
    assert all(same(one.flatten(), before.flatten()) for one in targets)


def test_little_is_read_by_each_for_itself() -> None:
    before = small_training(1)
    place = saved(before.flatten(), 2)
    data = sum(one.bytes for one in place.files(Name.parse(NAME)) if "safe" in one.name)
    place.counts.clear()
    targets = [small_training(seed) for seed in (2, 3, 4)]
    assert load_together(place, targets) == [None] * 3
    assert place.counts["bytes"] >= 3 * data
    assert all(same(one.flatten(), before.flatten()) for one in targets)


def damage(place: CountedPlace, file: str) -> None:
    key = (Name.parse(NAME), file)
    place._files[key] = place._files[key][:-1] + b"\0"


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize(
    "file", ["rank-1.safetensors", "rank-0.json", "rank-2.json", "COMPLETE", None]
)
def test_what_one_of_them_finds_damaged_is_damaged_for_all(
    monkeypatch: pytest.MonkeyPatch, file: str | None, *, is_shared: bool
) -> None:
    monkeypatch.setattr(together, "SHARE_BYTES", 0 if is_shared else 1 << 40)
    place = saved(small_training(1).flatten(), 3)
    if file is None:
        place.remove_file(Name.parse(NAME), "rank-1.safetensors")
    else:
        damage(place, file)
    errors = load_together(place, [small_training(2) for _ in range(3)])
    assert [type(error) for error in errors] == [DamagedCheckpointError] * 3
    assert all((file or "rank-1.safetensors") in str(error) for error in errors)


class CutOff(CountedPlace):
    """A place that one thread cannot read a file of."""

    def __init__(self, whole: CountedPlace, file: str, times: int) -> None:
        super().__init__()
        self._files = whole._files
        self._file = file
        self.times = times

    @override
    def _open(self, name: Name, file: str) -> bytes:
        if file == self._file and self.times:
            self.times -= 1
            raise OSError(5, "Input/output error", file)
        return super()._open(name, file)


@pytest.mark.usefixtures("_everything_is_shared")
@pytest.mark.parametrize("file", ["rank-1.safetensors", "rank-2.json"])
def test_what_one_of_them_cannot_read_is_unreadable_for_all(
    monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setattr(storage_retries, "READ_SECONDS", 0.05)
    place = CutOff(saved(small_training(1).flatten(), 3), file, 1 << 30)
    errors = load_together(place, [small_training(2) for _ in range(3)])
    assert [type(error) for error in errors] == [UnreadableCheckpointError] * 3


@pytest.mark.usefixtures("_everything_is_shared")
@pytest.mark.parametrize("file", ["rank-1.safetensors", "rank-2.json"])
def test_the_others_wait_for_one_that_tries_again(file: str) -> None:
    before = small_training(1)
    place = CutOff(saved(before.flatten(), 3), file, 2)
    targets = [small_training(2) for _ in range(3)]
    assert load_together(place, targets) == [None] * 3
    assert all(same(one.flatten(), before.flatten()) for one in targets)


@pytest.mark.usefixtures("_everything_is_shared")
def test_copies_that_divide_the_model_anew_read_each_tensor_once() -> None:
    """Two processes have saved halves of the rows; three copies of a whole model read them."""
    whole = torch.arange(6000.0).reshape(60, 100)
    place = CountedPlace()
    halves = [opened(place, shard=shard, shards=2) for shard in range(2)]
    for shard, one in enumerate(halves):
        box = Box((30 * shard, 0), (30, 100))
        mark = Division((60, 100), {"shard": 0}, box).mark("held/x")
        part = whole[30 * shard : 30 * (shard + 1)].contiguous()
        flat = Flat({"held/x": part}, {"held": {"x": mark}})
        one.save(NAME, flat, rank=shard, size=2, extra={"of": NAME})
    for one in halves:
        assert one.wait(10.0)
        one.close()
    place.counts.clear()
    targets = [Held(x=torch.zeros(60, 100)) for _ in range(3)]
    assert load_together(place, [tracked(held=one) for one in targets]) == [None] * 3
    assert all(torch.equal(one.content["x"], whole) for one in targets)
    assert place.counts["bytes"] < 2.5 * whole.nbytes  # hashes of all, and all of it
