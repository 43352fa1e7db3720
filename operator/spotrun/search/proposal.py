"""The answers of a search."""

from dataclasses import dataclass

from spotrun.search.space import Values


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The values of the next trial."""

    values: Values
    parent: int | None = None  # the trial from whose newest checkpoint it begins; None: from none
    why: str = ""  # for people, where there is something to say


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is no next trial: for now, or for good."""

    why: str
    is_final: bool = False
