"""Amounts, times and tables in the words of people."""

from datetime import UTC, datetime

import pytest

from spotrun.cli.jobs.logs.lines import MARK, Line, drawn
from spotrun.cli.jobs.watch import in_a_line
from spotrun.cli.text.look import Look, look_of
from spotrun.cli.text.table import Column, table
from spotrun.cli.text.words import sentence, span, things, usd
from tests.support.screens.shown_jobs import shown_job

LOOK = Look(datetime(2026, 3, 1, tzinfo=UTC), width=30)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((None, "-"), (0, "0s"), (38.9, "38s"), (-90, "1m30s"), (725, "12m")),
        *((11_520, "3h12m"), (36_000, "10h"), (90_000, "1d1h"), (864_000, "10d")),
    ],
)
def test_times_have_their_two_largest_units(seconds: float | None, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        *((None, "-"), ("0", "$0.00"), ("1234.5", "$1,234.50"), ("-2", "-$2.00")),
        *(("0.00042", "$0.00042"), ("no number", "$0.00")),
    ],
)
def test_dollars_are_read_to_the_cent(amount: str | None, text: str) -> None:
    assert usd(amount) == text


def test_one_thing_is_singular() -> None:
    assert (things(1, "worker"), things(2_000, "worker")) == ("1 worker", "2,000 workers")


def test_sentences_end() -> None:
    assert (sentence("a b"), sentence("Why?"), sentence("")) == ("A b.", "Why?", "")


def test_empty_columns_are_left_out_and_the_last_is_cut() -> None:
    columns = (Column("NAME"), Column("EMPTY"), Column("N", is_number=True), Column("WHY"))
    lines = table(columns, [("a", "-", "1", "x" * 60), ("bb", "-", "12", "")], LOOK)
    assert lines == ["NAME   N  WHY", f"a      1  {'x' * 21}...", "bb    12"]


def test_no_color_is_obeyed() -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    terminal: object = Terminal()
    assert look_of(terminal, {}).has_colours  # type: ignore[arg-type]
    assert not look_of(terminal, {"NO_COLOR": "1"}).has_colours  # type: ignore[arg-type]
    assert not look_of(terminal, {"TERM": "dumb"}).has_colours  # type: ignore[arg-type]


def test_nobody_elses_text_speaks_to_the_terminal() -> None:
    assert LOOK.filled("a\x1b[2Jb\nc") == ["a [2Jb c"]
    assert table((Column("WHY"),), [("\x1b]0;title\x07",)], LOOK)[1] == " ]0;title"
    evil = shown_job(status={"phase": "Pending", "message": "a\x1b[2Jb"})
    assert "\x1b" not in in_a_line(evil)
    assert "\x1b" not in drawn(Line("", MARK, "world 2: \x1b[2J"), has_times=False, width=0)
