"""Names of checkpoints: the step, and the number of the world that saved it."""

import re
from dataclasses import dataclass

_NAME = re.compile(r"step-(0|[1-9][0-9]{0,15})\.g(0|[1-9][0-9]{0,9})")


@dataclass(frozen=True, order=True)
class Name:
    """`step-N.gG`: a higher step is newer; for the same step, a later world is newer."""

    step: int
    world_number: int

    @classmethod
    def parse(cls, text: str) -> "Name":
        """Read a name; refuse everything else, because it becomes the name of a directory."""
        if not (match := _NAME.fullmatch(text)):
            raise ValueError(f"a checkpoint is called step-N.gG, not {text[:80]!r}")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:  # type: ignore[explicit-override]  # typing has it from 3.12 on
        return f"step-{self.step}.g{self.world_number}"


def names_among(entries: list[str]) -> list[Name]:
    """Return the checkpoints in a listing, oldest first; other names are ignored."""
    return sorted(Name.parse(entry) for entry in entries if _NAME.fullmatch(entry))
