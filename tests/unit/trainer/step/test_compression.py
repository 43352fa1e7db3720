"""Sums in fewer bytes: the same bits everywhere, and nothing of a gradient is lost for good."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from typing_extensions import override

from spotrun_trainer.elastic.pending_collectives import Done, Pending
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.step.reduce.bucket import Bucket
from spotrun_trainer.step.reduce.compression import (
    BF16,
    Compression,
    PowerSGD,
    TopK,
    compression_of,
)
from spotrun_trainer.step.reduce.exchange import Exchange, Rounds
from spotrun_trainer.step.reduce.reducer import Reducer

SHAPES = [torch.Size(one) for one in ((40, 30), (7,), (16, 4, 8), (3, 0), (2, 2), ())]
SIZES = [shape.numel() for shape in SHAPES]
NUMEL = sum(SIZES)
ALL: list[Compression] = [BF16(), PowerSGD(rank=2), TopK(ratio=0.05)]
IN_FULL: list[Compression] = ALL[1:]  # sums of bf16 are rounded on their way, too

each = pytest.mark.parametrize("compression", ALL, ids=str)


class Member(Group):
    """A member of a world whose collectives are completed by `World.complete`."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self.begun: Callable[[list[Member]], None] | None = None
        self.message = torch.empty(0)
        self.rows: list[Tensor] = []
        self.sent_bytes = 0.0  # around a ring

    @override
    def all_reduce(self, tensor: Tensor) -> Pending:
        self.message, self.rows = tensor, []
        self.sent_bytes += 2 * (self.size - 1) / self.size * tensor.nbytes
        return Done()

    @override
    def begin(self, collective: Callable[[Any], Any], tensor: Tensor) -> Pending:
        collective(self)
        return Done()

    def allgather(self, rows: list[list[Tensor]], tensors: list[Tensor]) -> None:
        """As torch's backends."""
        (self.rows,), (self.message,) = rows, tensors
        self.sent_bytes += (self.size - 1) * self.message.nbytes


def complete(members: Sequence[Member]) -> None:
    messages = [one.message.clone() for one in members]
    for member in members:
        for row, message in zip(member.rows, messages, strict=bool(member.rows)):
            row.copy_(message)
        if not member.rows:
            member.message.copy_(torch.stack(messages).sum(0))


class World:
    """Processes that sum one bucket."""

    def __init__(self, compression: Compression, size: int) -> None:
        self.compression = compression
        self.exchanges = [self.joining_worker() for _ in range(size)]
        self.meet()

    def joining_worker(self) -> Exchange:
        return Exchange(self.compression.codec(SHAPES), SIZES)

    def meet(self) -> None:
        """Enter a new world, of those who are there."""
        size = len(self.exchanges)
        self.members = [Member(rank, size) for rank in range(size)]

    def sum(self, given: Sequence[Tensor], marks: Sequence[int] | None = None) -> Tensor:
        """The sum of what each has; all have to get the same."""
        flats = [one.clone() for one in given]
        self.marks = [torch.tensor(marks or [1] * len(SHAPES)).float() for _ in flats]
        rounds = [
            exchange.begin(flat, mark, member)
            for exchange, flat, mark, member in zip(
                self.exchanges, flats, self.marks, self.members, strict=True
            )
        ]
        while rounds:
            if len(flats) > 1:
                complete(self.members)
            rounds = [one for one in rounds if one.go_on()]
        for flat, mark in zip(flats, self.marks, strict=True):
            assert torch.equal(flat, flats[0])
            assert mark.tolist() == [one * len(flats) for one in marks or [1] * len(SHAPES)]
        return flats[0]

    def apply(self, *, some_missing: bool = False) -> None:
        for exchange, marks in zip(self.exchanges, self.marks, strict=True):
            exchange.keep_rest(marks, some_missing=some_missing)

    def drop(self) -> None:
        for exchange in self.exchanges:
            exchange.drop()


def gradients(size: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(NUMEL, generator=generator) for _ in range(size)]


@each
@given(size=st.integers(2, 4), seed=st.integers(0, 5))
def test_all_get_the_same_bits_and_a_sum_that_is_not_the_whole(
    compression: Compression, size: int, seed: int
) -> None:
    world, given_ = World(compression, size), gradients(size, seed)
    found = world.sum(given_)  # which compares
    whole = torch.stack(given_).sum(0)
    assert not torch.equal(found, whole)
    # PowerSGD and top-k never point away from it.
    assert torch.dot(found, whole) > 0


@pytest.mark.parametrize("compression", IN_FULL, ids=str)
@given(size=st.integers(1, 4), steps=st.integers(1, 4))
def test_what_was_applied_and_what_is_kept_is_all_that_there_was(
    compression: Compression, size: int, steps: int
) -> None:
    world = World(compression, size)
    applied, whole = torch.zeros(NUMEL), torch.zeros(NUMEL)
    for step in range(steps):
        given_ = gradients(size, step)
        applied += world.sum(given_)
        whole += torch.stack(given_).sum(0)
        world.apply()
    world.exchanges = [one for one in world.exchanges if one._rest is not None]
    kept = torch.stack([one._rest for one in world.exchanges if one._rest is not None]).sum(0)
    torch.testing.assert_close(applied + kept, whole, atol=1e-4, rtol=1e-4)


@each
def test_a_rest_comes_later(compression: Compression) -> None:
    """Of the same gradient in each step the mean of what is applied comes close to it."""
    world, given_ = World(compression, 2), gradients(2)
    whole, applied = torch.stack(given_).sum(0), torch.zeros(NUMEL)
    far = []
    for step in range(1, 65):
        applied += world.sum(given_)
        world.apply()
        far.append((applied / step - whole).norm() / whole.norm())
    assert far[-1] < min(0.35, far[0] / 2)


@each
def test_of_a_step_that_is_dropped_nothing_is_left(compression: Compression) -> None:
    disturbed, other = World(compression, 3), World(compression, 3)
    for world in (disturbed, other):
        world.sum(gradients(3, 1))
        world.apply()
    disturbed.sum(gradients(3, 2))
    disturbed.drop()
    found = [world.sum(gradients(3, 3)) for world in (disturbed, other)]
    assert torch.equal(*found)


@each
def test_a_joining_worker_and_those_who_have_kept_something_get_the_same(
    compression: Compression,
) -> None:
    world = World(compression, 3)
    for step in range(3):
        world.sum(gradients(3, step))
        world.apply()
    world.exchanges[1] = world.joining_worker()
    world.meet()
    world.sum(gradients(3, 4))  # which compares


@each
def test_who_is_left_alone_applies_what_it_kept(compression: Compression) -> None:
    world = World(compression, 2)
    world.sum(gradients(2))
    world.apply()
    (kept, _), world.exchanges = world.exchanges, world.exchanges[:1]
    rest = kept._rest
    assert rest is not None
    world.meet()
    (own,) = gradients(1, 5)
    assert torch.equal(world.sum([own]), own + rest)
    world.apply()
    assert torch.equal(world.sum([own]), own)


@each
def test_what_nobody_applies_is_kept(compression: Compression) -> None:
    """A parameter without a gradient in any process is left alone by the optimizer."""
    world = World(compression, 2)
    world.sum(gradients(2))
    world.apply()
    before = [one._rest for one in world.exchanges]
    world.sum([torch.zeros(NUMEL)] * 2, marks=[0, 1, 1, 1, 1, 1])
    world.apply(some_missing=True)
    for exchange, rest in zip(world.exchanges, before, strict=True):
        assert rest is not None
        assert exchange._rest is not None
        assert torch.equal(exchange._rest[: SIZES[0]], rest[: SIZES[0]])
        assert not torch.equal(exchange._rest, rest) or not rest[SIZES[0] :].any()


@each
@pytest.mark.parametrize("size", [2, 3, 5])
def test_the_bytes_that_are_told_are_those_that_are_sent(
    compression: Compression, size: int
) -> None:
    world = World(compression, size)
    world.sum(gradients(size))
    told = world.exchanges[0].sync_bytes(size)
    (sent,) = {one.sent_bytes for one in world.members}
    assert 2 * (size - 1) / size * told == pytest.approx(sent, abs=4 * size)
    assert told < 4 * NUMEL


def test_matrices_of_a_low_rank_come_through_whole() -> None:
    world = World(PowerSGD(rank=2), 2)
    given_ = []
    for one in gradients(2):
        flat = one.clone()
        for place, shape in ((0, SHAPES[0]), (SIZES[0] + SIZES[1], SHAPES[2])):
            rows, columns = shape[0], shape.numel() // shape[0]
            matrix = torch.outer(torch.arange(1.0, rows + 1), one[:columns])
            flat[place : place + rows * columns] = matrix.flatten()
        given_.append(flat)
    torch.testing.assert_close(world.sum(given_), sum(given_), atol=1e-3, rtol=1e-3)


@each
def test_zeros_stay_zeros_and_do_not_stop_what_comes_after(compression: Compression) -> None:
    world = World(compression, 2)
    for _ in range(2):
        assert not world.sum([torch.zeros(NUMEL)] * 2).any()
        world.apply()
    assert world.sum(gradients(2))[: SIZES[0]].any()


@each
def test_a_part_without_numbers_is_summed_as_well(compression: Compression) -> None:
    """A process may hold an empty part of a tensor that is too small for all."""
    exchange, group = Exchange(compression.codec([torch.Size((0, 3))]), [0]), Member(0, 1)
    exchange.begin(torch.zeros(0), torch.ones(1), group).wait()
    exchange.keep_rest(torch.zeros(1), some_missing=True)
    two = Member(0, 2)
    exchange.begin(torch.zeros(0), torch.ones(1), two).wait()


@pytest.mark.parametrize("wrong", [lambda: TopK(0.0), lambda: TopK(2), lambda: PowerSGD(0)])
def test_sizes_that_make_no_sense_are_refused(wrong: Callable[[], Compression]) -> None:
    with pytest.raises(ValueError, match=r"TopK|PowerSGD"):
        wrong()


@pytest.mark.parametrize(
    ("compress", "about", "says"),
    [
        ("bf16", {"deterministic": True}, "exclude each other"),
        ("topk", {"shards": 2}, "same parameter"),
        ("topk", {"tensor": 2}, "same parameter"),
        ("zip", {}, "one of bf16, powersgd, topk"),
    ],
)
def test_where_there_can_be_none_it_is_refused(
    compress: Any, about: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        compression_of(compress, **{"deterministic": False, "shards": 1, "tensor": 1, **about})


@each
def test_who_gives_up_sends_as_much_as_the_others_and_takes_no_memory_for_a_rest(
    compression: Compression,
) -> None:
    world, given_ = World(compression, 2), gradients(2)
    world.sum(given_)
    world.apply()
    kept = [one._rest.clone() for one in world.exchanges if one._rest is not None]
    flats, marks = [one.clone() for one in given_], [torch.ones(len(SHAPES)) for _ in given_]
    gives_up = [True, False]
    rounds = [
        exchange.begin(flat, mark, member, is_dropped=is_dropped)
        for exchange, flat, mark, member, is_dropped in zip(
            world.exchanges, flats, marks, world.members, gives_up, strict=True
        )
    ]
    assert world.exchanges[0]._new_rest is flats[0]
    lengths = []
    while rounds:
        lengths.append([len(one.message) for one in world.members])
        complete(world.members)
        rounds = [one for one in rounds if one.go_on()]
        assert len(rounds) in {0, 2}, "both have as many rounds"
    assert all(one == other for one, other in lengths)
    world.drop()
    assert all(
        one._rest is not None and torch.equal(one._rest, before)
        for one, before in zip(world.exchanges, kept, strict=True)
    )


class Sent(Bucket):
    """A bucket whose sum takes two rounds, which are noted."""

    def __init__(self, name: str, begun: list[str]) -> None:
        super().__init__([nn.Parameter(torch.zeros(2))])
        self._name, self._begun = name, begun

    @override
    def send(self, group: Group, *, is_dropped: bool = False) -> Pending:
        return Rounds(self._rounds())

    def _rounds(self) -> Iterator[Pending]:
        for number in (1, 2):
            self._begun.append(f"{self._name}{number}")
            yield Done()


def test_buckets_that_were_expected_are_summed_before_others_begin() -> None:
    """A process that gives up takes part in the expected ones first, and then in the others."""
    begun: list[str] = []
    expected, more = Sent("expected", begun), Sent("more", begun)
    reducer = Reducer(Group())
    reducer.expect([expected])
    reducer.finish([more, expected])
    in_one_go, begun[:] = list(begun), []

    expected.drop()
    more.drop()
    reducer.expect([expected])
    reducer.finish((), are_dropped=True)
    reducer.finish([more, expected])

    assert in_one_go == begun == ["expected1", "expected2", "more1", "more2"]
