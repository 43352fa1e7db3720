"""Numbers and tables for people to read."""

import json
import re
from collections.abc import Sequence

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([kKMGTP]?)(i?)B?")
_AGES = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def size_text(num_bytes: float) -> str:
    """Return a size with its decimal unit."""
    unit = 0
    while num_bytes >= 999.5 and unit < len(_UNITS) - 1:
        num_bytes /= 1000
        unit += 1
    return f"{num_bytes:.0f} {_UNITS[unit]}" if unit < 2 else f"{num_bytes:.3g} {_UNITS[unit]}"


def age_text(seconds: float) -> str:
    """Return a time span in its largest unit."""
    for length, unit in _AGES:
        if seconds >= 2 * length or unit == "s":
            return f"{max(0, seconds) // length:.0f} {unit}"
    raise AssertionError("the last unit fits all")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines with aligned columns."""
    every = [head, *rows]
    widths = [max(len(row[column]) for row in every) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in every
    )


def short(value: object, most: int = 80) -> str:
    """Return a value as JSON, cut off where it is long."""
    text = json.dumps(value)
    return text if len(text) <= most else f"{text[:most]}..."


def bytes_of_text(text: str) -> int:
    """Read a size: 5GB, 500 MB, 2GiB; raises ValueError for another text."""
    if not (match := _SIZE.fullmatch(text.strip())):
        raise ValueError(f"{text[:40]!r} is not a size: give one such as 5GB or 500MiB")
    base = 1024 if match[3] else 1000
    size = int(float(match[1]) * base ** " KMGTP".index(match[2].upper() or " "))
    if size < 1:
        raise ValueError(f"{text[:40]!r} is not a size of a file")
    return size
