"""The look of a screen: its width, its colours if it is a terminal, and the time it is made at."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from textwrap import wrap
from typing import TextIO
from unicodedata import category, east_asian_width

_CODES = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "dim": 2, "bold": 1}
_NO_WIDTH = ("Mn", "Me")  # marks on the letter before
_PLAIN_WIDTH = 160
"""The width of a file or a pipe: whole rows fit, and paragraphs can be read."""


@dataclass(frozen=True)
class Look:
    """The width in letters, whether colours are seen, and the present time."""

    now: datetime
    width: int = 100
    has_colours: bool = False

    def paint(self, text: str, colour: str | None) -> str:
        """Return text in a colour, if colours are shown."""
        if not (self.has_colours and colour and text):
            return text
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"

    def cut(self, text: str, width: int | None = None) -> str:
        """Return text that fits on a line."""
        most = self.width if width is None else width
        if columns_of(text) <= most:
            return text
        kept = takewhile(lambda end: columns_of(text[:end]) <= most - 3, range(len(text)))
        return f"{text[: max(kept, default=0)]}..."

    def filled(self, text: str, first: str = "", indent: str = "") -> list[str]:
        """Return a paragraph as lines that fit."""
        most = max(40, self.width)
        return wrap(
            printable(text),
            most,
            initial_indent=first,
            subsequent_indent=indent,
            break_on_hyphens=False,
        ) or [first]


def columns_of(text: str) -> int:
    """Return the columns of a terminal that a text takes: Chinese letters and emoji take two."""
    if text.isascii():
        return len(text)
    return sum(0 if category(c) in _NO_WIDTH else 1 + (east_asian_width(c) in "WF") for c in text)


def printable(text: str) -> str:
    """Return a text from elsewhere without control characters that a terminal would obey."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def look_of(stream: TextIO, environment: Mapping[str, str] | None = None) -> Look:
    """Return the look for a stream: https://no-color.org, and the width of its terminal."""
    values = os.environ if environment is None else environment
    is_terminal = stream.isatty()
    columns = shutil.get_terminal_size((100, 24)).columns
    return Look(
        now=datetime.now(UTC),
        width=columns if is_terminal else _PLAIN_WIDTH,
        has_colours=is_terminal and not values.get("NO_COLOR") and values.get("TERM") != "dumb",
    )
