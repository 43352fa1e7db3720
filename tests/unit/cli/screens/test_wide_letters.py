"""Tables stay straight where letters take two columns, or none."""

from datetime import UTC, datetime

import pytest

from spotrun.cli.text.look import Look, columns_of
from spotrun.cli.text.table import Column, table

LOOK = Look(datetime(2026, 3, 1, tzinfo=UTC))


def test_columns_begin_in_the_same_place() -> None:
    rows = [("\u8a13\u7df4", "1"), ("gpt", "22"), ("e\u0301te\u0301", "333")]
    lines = table([Column("TEAM"), Column("JOBS", is_number=True)], rows, LOOK)
    assert {columns_of(line) for line in lines} == {10}


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abc..."),
        ("\u8a13\u7df4\u8a13", 6, "\u8a13\u7df4\u8a13"),
        ("\u8a13\u7df4\u8a13\u7df4", 6, "\u8a13..."),
        ("abcdef", 2, "..."),
    ],
)
def test_a_text_is_cut_by_its_columns(text: str, width: int, shown: str) -> None:
    assert LOOK.cut(text, width) == shown
