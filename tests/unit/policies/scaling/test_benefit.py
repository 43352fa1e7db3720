"""How long a step takes at sizes that were never measured, and which sizes are worth a thought."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.policies.scaling.benefit import MOST_SIZES, Curve, Point, Rounds, efficient, thinned

EVEN = Rounds(None, 1)


def curve(*points: Point, rounds: Rounds = EVEN) -> Curve:
    return Curve(points, rounds)


@pytest.mark.parametrize(
    ("microbatches", "processes", "sizes"),
    [
        pytest.param(8, 1, (1, 2, 3, 4, 8), id="5, 6 and 7 are as slow as 4"),
        pytest.param(8, 4, (1, 2), id="of a worker's processes each takes its own"),
        pytest.param(1, 1, (1,), id="nothing to deal"),
        pytest.param(None, 1, tuple(range(1, 17)), id="unknown"),
    ],
)
def test_sizes_at_which_a_step_gets_no_shorter_are_useless(
    microbatches: int | None, processes: int, sizes: tuple[int, ...]
) -> None:
    assert Rounds(microbatches, processes).shorter(range(1, 17)) == sizes


def test_from_one_size_computing_shrinks_with_the_rounds() -> None:
    known = curve(Point(4, 10.0, compute=1.0, data=0.0))
    assert (known.seconds(2), known.seconds(4), known.seconds(8)) == (20.0, 10.0, 5.0)


def test_data_that_workers_wait_for_come_no_faster_for_more_of_them() -> None:
    known = curve(Point(4, 10.0, compute=0.6, data=0.4))
    assert (known.seconds(8), known.seconds(3), known.seconds(2)) == (10.0, 10.0, 12.0)
    assert known.compute(8) == pytest.approx(3 / 10)


def test_unless_two_sizes_show_that_they_do() -> None:
    """Every worker loads its own: with twice the workers the data are there in half the time."""
    known = curve(Point(2, 20.0, compute=0.5, data=0.5), Point(4, 10.0, compute=0.5, data=0.5))
    assert known.seconds(8) == pytest.approx(5.0)


def test_what_little_everybody_waits_is_waited_at_every_size() -> None:
    known = curve(Point(4, 10.0, compute=0.95, data=0.05))
    assert known.seconds(8) == pytest.approx(4.75 + 0.5 * (7 / 8) / (3 / 4))


def test_an_all_reduce_grows_a_little_with_the_ring() -> None:
    known = curve(Point(2, 10.0, compute=0.9, data=0.0))
    assert known.seconds(4) == pytest.approx(4.5 + 1.0 * (3 / 4) / (1 / 2))


def test_without_parts_all_of_a_step_is_taken_to_divide() -> None:
    known = curve(Point(4, 10.0))
    assert known.seconds(8) == pytest.approx(5.0)
    assert known.compute(8) is None


def test_two_sizes_show_what_every_process_does_alike() -> None:
    """Amdahl: 9.5 seconds divide, half a second does not, and the agents call it all computing."""
    known = curve(Point(4, 9.5 / 4 + 0.5, 1.0), Point(8, 9.5 / 8 + 0.5, 1.0))
    for size in (2, 5, 16, 32):
        assert known.seconds(size) == pytest.approx(9.5 / size + 0.5)


def test_beyond_two_worlds_communication_grows_between_traffic_and_latency() -> None:
    """From 0.2 s at 4 to 0.4 s at 8: as traffic alone it would be 0.5 at 16, as latency 0.8."""

    def point(size: int) -> Point:
        seconds = 10 / size + 0.05 * size
        return Point(size, seconds, compute=10 / size / seconds)

    known = curve(point(4), point(8))
    assert known.seconds(16) == pytest.approx(10 / 16 + (0.5 + 0.8) / 2)


def test_communication_comes_out_where_computing_hides_it_no_more() -> None:
    """Of a ring of two seconds nothing shows beside four seconds of computing, one beside two."""
    known = curve(Point(4, 4.0, 1.0, 0.0), Point(8, 3.0, compute=2 / 3, data=0.0))
    assert known.seconds(5) == pytest.approx(3.2 + 2 * (4 / 5) / (7 / 8) - 1.6)
    nothing = curve(Point(4, 4.0, 1.0, 0.0), Point(8, 2.0, 1.0, 0.0))
    assert nothing.seconds(5) == pytest.approx(3.2)


def test_a_single_process_shows_no_communication() -> None:
    known = curve(Point(1, 10.0, compute=1.0), Point(4, 3.5, compute=2.5 / 3.5, data=0.0))
    assert known.seconds(8) == pytest.approx(1.25 + 1.0 * (7 / 8) / (3 / 4))


def test_efficiency_is_the_share_of_added_workers_that_shows() -> None:
    assert curve(Point(4, 8.0), Point(8, 4.0)).efficiency(4, 8) == pytest.approx(1.0)
    assert curve(Point(4, 8.0), Point(8, 8.0)).efficiency(4, 8) == pytest.approx(0.0)
    assert curve(Point(4, 6.0), Point(8, 4.0)).efficiency(4, 8) == pytest.approx(0.5)


def test_a_size_is_efficient_only_against_every_smaller_one() -> None:
    flat = curve(Point(1, 8.0), Point(2, 4.0), Point(4, 2.0), Point(5, 2.0))
    assert efficient(flat, (1, 2, 4, 5), 0.6) == (1, 2, 4)


def test_nothing_is_believed_far_from_what_was_measured() -> None:
    assert curve(Point(2, 2.0), Point(4, 1.0)).farthest == 16


@pytest.mark.parametrize(
    ("point", "processes", "prudent"),
    [
        pytest.param(Point(4, 1.0, compute=0.9, data=0.0), 1, 16, id="communication shows"),
        pytest.param(Point(4, 1.0, compute=0.99, data=0.0), 1, 8, id="none shows"),
        pytest.param(Point(4, 1.0, compute=0.5, data=0.5), 1, 8, id="data are waited for"),
        pytest.param(Point(4, 1.0), 1, 8, id="nobody tells"),
        pytest.param(Point(1, 1.0, compute=0.9, data=0.0), 1, 2, id="there is nobody to talk to"),
        pytest.param(Point(1, 1.0, compute=0.9, data=0.0), 8, 4, id="but for seven in the worker"),
    ],
)
def test_where_communication_hides_it_is_gone_half_as_far(
    point: Point, processes: int, prudent: int
) -> None:
    assert curve(point, rounds=Rounds(None, processes)).prudent == prudent


def test_a_step_in_which_nobody_waits() -> None:
    known = curve(Point(4, 4.0, 1.0, 0.0), Point(8, 3.2, compute=2 / 3.2, data=1.2 / 3.2))
    free = [known.unhindered(size) for size in (4, 5, 8, 16)]
    assert free == pytest.approx([4.0, 3.2, 2.0, 1.0])
    assert [known.is_unhindered(size) for size in (4, 5, 8)] == [True, False, False]
    assert not curve(Point(4, 4.0)).is_unhindered(4)


def test_of_very_many_sizes_some_are_compared() -> None:
    sizes = thinned(range(1, 10_001), kept=(777, 20_000))
    assert len(sizes) <= MOST_SIZES + 1
    assert {1, 777, 10_000} <= set(sizes)
    assert thinned((2, 4, 8), kept=()) == (2, 4, 8)


POINTS = st.lists(
    st.builds(
        Point,
        workers=st.integers(1, 64),
        seconds=st.floats(1e-6, 1e5),
        compute=st.none() | st.floats(0, 1),
        data=st.none() | st.floats(0, 1),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda point: point.workers,
)


@given(POINTS, st.sampled_from([None, 1, 7, 64]), st.integers(1, 256))
def test_every_size_has_a_step_of_some_length(
    points: list[Point], microbatches: int | None, size: int
) -> None:
    known = Curve(tuple(sorted(points, key=lambda p: p.workers)), Rounds(microbatches, 2))
    assert 0 < known.seconds(size) < 1e9
    compute = known.compute(size)
    assert compute is None or 0 <= compute <= 1
