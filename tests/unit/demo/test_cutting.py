from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment

from demo.cutting import (
    LAST_SECONDS,
    LEAST_SECONDS,
    LONGEST_PAUSE_SECONDS,
    MOST_FRAMES,
    WHOLE_SECONDS,
    Film,
    Shot,
    cut,
)


def shots(*moments: float) -> list[Shot]:
    return [Shot(at, ((Segment(f"shot {n}"),),)) for n, at in enumerate(moments)]


def shown(film: Film) -> list[tuple[str, float]]:
    return [(frame.lines[0][0].text, frame.seconds) for frame in film.frames]


def test_a_short_demo_is_shown_as_fast_as_it_was() -> None:
    film = cut(shots(0.0, 3.0, 4.0, 14.0))
    expected = [("shot 0", 3.0), ("shot 1", 1.0), ("shot 2", 10.0), ("shot 3", LAST_SECONDS)]
    assert (1.0, expected) == (film.speed, shown(film))


def test_a_long_one_is_shown_so_fast_that_it_ends_before_long() -> None:
    playing = WHOLE_SECONDS - LAST_SECONDS
    film = cut(shots(*(playing * n / 2 for n in range(7))))
    assert film.speed == 3.0
    expected = [*[playing / 6] * 6, LAST_SECONDS]
    assert expected == pytest.approx([seconds for _, seconds in shown(film)])


def test_what_lasted_too_short_to_be_seen_is_left_out() -> None:
    film = cut(shots(0.0, 3.0, 3.0 + LEAST_SECONDS / 2, 6.0, 9.0))
    expected = {"shot 0": 3.0 + LEAST_SECONDS / 2, "shot 2": 3.0 - LEAST_SECONDS / 2}
    assert expected == pytest.approx(dict(shown(film)[:2]))


def test_there_are_only_so_many_frames() -> None:
    film = cut(shots(*(float(second) for second in range(2 * MOST_FRAMES))))
    assert len(film.frames) == MOST_FRAMES


def test_long_pauses_are_shortened() -> None:
    film = cut(shots(0.0, 1.0, 1.0 + 420.0, 3.0 + 420.0))
    expected = {"shot 0": 1.0, "shot 1": LONGEST_PAUSE_SECONDS, "shot 2": 2.0}
    assert expected == pytest.approx(dict(shown(film)[:-1]))


def test_the_first_and_the_last_are_kept() -> None:
    assert [text for text, _ in shown(cut(shots(0.0, 0.1, 0.1)))] == ["shot 0", "shot 2"]
    assert shown(cut(shots(5.0))) == [("shot 0", LAST_SECONDS)]


def test_of_nothing_there_is_no_film() -> None:
    assert Film((), 1.0) == cut([])


@given(st.lists(st.floats(0.0, 6.0), min_size=1, max_size=120))
def test_however_it_went_it_can_be_followed(gaps: list[float]) -> None:
    taken = shots(*accumulate(gaps))
    film = cut(taken)
    assert len(film.frames) <= MOST_FRAMES
    assert film.frames[-1].lines == taken[-1].lines
    assert all(frame.seconds >= LEAST_SECONDS - 1e-9 for frame in film.frames[1:])
    span = taken[-1].at_seconds - taken[0].at_seconds
    expected = span / film.speed + LAST_SECONDS
    assert expected == pytest.approx(sum(frame.seconds for frame in film.frames))
    assert expected <= WHOLE_SECONDS + 1e-9


@given(st.lists(st.floats(0.0, 6.0), min_size=1, max_size=120))
def test_nothing_is_shown_before_it_happened(gaps: list[float]) -> None:
    taken = shots(*accumulate(gaps))
    film = cut(taken)
    begins = [0.0, *accumulate(frame.seconds * film.speed for frame in film.frames[:-1])]
    happened = {shot.lines: shot.at_seconds - taken[0].at_seconds for shot in taken}
    expected = [happened[frame.lines] for frame in film.frames]
    assert expected == pytest.approx(begins, abs=1e-6)
