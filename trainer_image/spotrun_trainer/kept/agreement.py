"""The state to continue with. Pure: what each process has goes in, a plan for all comes out."""

from collections.abc import Sequence
from typing import NamedTuple

NONE = -1


class Claim(NamedTuple):
    """The states that a process could begin with."""

    loaded_step: int  # of its objects: the step that it loaded from a file, else 0
    kept_step: int = NONE  # of its worker's memory; NONE without one
    kept_bytes: int = 0


class Plan(NamedTuple):
    """The agreed state, and the way to it."""

    step: int
    is_kept: bool  # it is in the memory of `source`; else in its objects
    source: int  # the rank that others get it from
    lacking: frozenset[int]  # the ranks that have to get it


def agree(claims: Sequence[Claim]) -> Plan:
    """Return the newest state that any process has; of equally new ones, one that is loaded."""
    loaded = max(claim.loaded_step for claim in claims)
    kept = max(claim.kept_step for claim in claims)
    if loaded >= kept:
        have = {rank for rank, claim in enumerate(claims) if claim.loaded_step == loaded}
        return Plan(loaded, is_kept=False, source=min(have), lacking=_others(claims, have))
    source = next(rank for rank, claim in enumerate(claims) if claim.kept_step == kept)
    size = claims[source].kept_bytes
    have = {
        rank
        for rank, claim in enumerate(claims)
        if (claim.kept_step, claim.kept_bytes) == (kept, size)
    }
    return Plan(kept, is_kept=True, source=source, lacking=_others(claims, have))


def _others(claims: Sequence[Claim], have: set[int]) -> frozenset[int]:
    return frozenset(range(len(claims))) - have
