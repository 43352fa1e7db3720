"""The findings of a check-up: what is right, what is wrong, and how to fix it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from spotrun.cli.text.look import Look


class Health(Enum):
    """The state of one thing that was checked, with its mark and its colour."""

    WELL = "ok", "green"
    WORSE = "note", "yellow"
    BAD = "bad", "red"
    HIDDEN = "?", "dim"


@dataclass(frozen=True)
class Finding:
    """One thing that was checked."""

    health: Health
    what: str
    mend: str = ""


def drawn(findings: Sequence[Finding], look: Look) -> list[str]:
    """Return the lines, each fix below its finding."""
    lines = []
    for one in findings:
        mark, colour = one.health.value
        first, *rest = look.filled(one.what, f"{mark:>4}  ", " " * 6)
        lines += [first.replace(mark, look.paint(mark, colour), 1), *rest]
        if one.mend:
            lines += look.filled(f"-> {one.mend}", " " * 6, " " * 9)
    return lines


def as_data(findings: Sequence[Finding]) -> list[dict[str, str]]:
    """Return the findings for programs."""
    return [
        {"health": one.health.name.title(), "what": one.what, "mend": one.mend} for one in findings
    ]


def is_bad(findings: Sequence[Finding]) -> bool:
    """Whether something must be fixed."""
    return any(one.health is Health.BAD for one in findings)
