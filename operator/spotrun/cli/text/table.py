"""Tables that fit: columns as wide as their content, the last one cut at the edge."""

from collections.abc import Sequence
from dataclasses import dataclass

from spotrun.cli.text.look import Look, columns_of, printable

_GAP = "  "
_LEAST = 24
"""The last column is not cut below this: a line that is too long is better than an empty one."""


@dataclass(frozen=True)
class Column:
    """A column; numbers are aligned to the right."""

    head: str
    is_number: bool = False
    is_kept: bool = False  # also if it is empty


@dataclass(frozen=True)
class Cell:
    """A text in a colour."""

    text: str
    colour: str | None = None


Row = Sequence[str | Cell]


def table(columns: Sequence[Column], rows: Sequence[Row], look: Look) -> list[str]:
    """Return the lines; a column without any content is left out."""
    cells = [[_plain(one) for one in row] for row in rows]
    shown = [
        n
        for n, column in enumerate(columns)
        if column.is_kept or any(row[n].text not in ("", "-") for row in cells)
    ]
    heads = [Cell(columns[n].head, "bold") for n in shown]
    body = [heads, *([row[n] for n in shown] for row in cells)]
    widths = [max(columns_of(row[n].text) for row in body) for n in range(len(shown))]
    if widths and not columns[shown[-1]].is_number:
        others = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
        widths[-1] = max(_LEAST, min(widths[-1], look.width - others))
    numbers = [columns[n].is_number for n in shown]
    return [_line(row, widths, numbers, look) for row in body]


def _plain(one: str | Cell) -> Cell:
    cell = one if isinstance(one, Cell) else Cell(one)
    return Cell(printable(cell.text), cell.colour)


def _line(row: Sequence[Cell], widths: Sequence[int], numbers: Sequence[bool], look: Look) -> str:
    parts = []
    for cell, width, is_number in zip(row, widths, numbers, strict=True):
        text = look.cut(cell.text, width)
        space = " " * (width - columns_of(text))
        padded = f"{space}{text}" if is_number else f"{text}{space}"
        parts.append(padded.replace(text, look.paint(text, cell.colour), 1) if text else padded)
    return _GAP.join(parts).rstrip()
