"""The answers of a search."""

from dataclasses import dataclass

from spotrun.search.space import Values


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The values of the next trial."""

    values: Values
    parent: int | None = None  # the trial whose newest checkpoint it begins from; None: none
    why: str = ""  # for people; empty if there is nothing to report


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is no next trial: for now, or finally."""

    why: str
    is_final: bool = False
