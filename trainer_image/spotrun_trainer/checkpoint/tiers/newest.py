"""The newest step whose parts are all in workers' folders: pure functions."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from spotrun_trainer.checkpoint.format.names import Name


@dataclass(frozen=True)
class Held:
    """A complete part of a checkpoint in a worker's folder."""

    name: Name
    attempt: str
    rank: int
    size: int  # parts of the checkpoint
    sha256: str  # of its manifest, which has the hash of its data


@dataclass(frozen=True)
class Found:
    """A checkpoint whose parts all exist, and where each is."""

    name: Name
    attempt: str
    manifests: tuple[str, ...]  # their hashes, by rank
    holders: tuple[frozenset[int], ...]  # the workers that have the part, by rank


def newest(folders: Sequence[Collection[Held]], *, at_least: Name | None = None) -> Found | None:
    """Return the newest checkpoint that is whole in these workers' folders together.

    `at_least` is the newest one in the durable place. Older checkpoints do not count, nor those of
    an earlier world: another world has continued since, from an older state.
    """
    parts = defaultdict[tuple[Name, str, int], dict[int, dict[str, set[int]]]](dict)
    for worker, folder in enumerate(folders):
        for held in folder:
            of_rank = parts[held.name, held.attempt, held.size].setdefault(held.rank, {})
            of_rank.setdefault(held.sha256, set()).add(worker)
    whole = [
        _found(name, attempt, [by_rank[rank] for rank in range(size)])
        for (name, attempt, size), by_rank in parts.items()
        if by_rank.keys() == set(range(size)) and _counts(name, at_least)
    ]
    return max(whole, key=lambda found: (found.name, found.attempt), default=None)


def _counts(name: Name, at_least: Name | None) -> bool:
    if at_least is None:
        return True
    return name.step >= at_least.step and name.world_number >= at_least.world_number


def _found(name: Name, attempt: str, of_ranks: Sequence[dict[str, set[int]]]) -> Found:
    """Take, if parts of one rank differ, those that most workers have."""
    chosen = [max(each.items(), key=lambda one: (len(one[1]), one[0])) for each in of_ranks]
    hashes = tuple(sha256 for sha256, _ in chosen)
    return Found(name, attempt, hashes, tuple(frozenset(workers) for _, workers in chosen))
