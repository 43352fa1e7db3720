"""The recovery plan of a new world: a pure function of its processes' states.

A *commit* is a sum that all processes apply: the end of a step, of one of its phases, or of an
evaluation. No process passes it unless all took part, so when a world breaks its processes are at
most one commit apart, and those behind still hold what the commit would apply. The operator makes
the world itself, and says who is in it (`spotrun/policies/world/loss.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, order=True)
class Commit:
    """A place in the history of a training; one of a later world is newer than all earlier ones."""

    world_number: int = 0  # of the world that it was made in; 0: no commit yet
    number: int = 0  # since the processes were started


NOTHING = Commit()

FEW_SOURCES, MOST_SOURCES = 8, 32
"""The processes that send one its state. With more than a few its own link is the limit; there may
be more if all of them then send the same amount."""


@dataclass(frozen=True)
class ProcessState:
    """The state of a process when it enters a world."""

    committed: Commit = NOTHING  # the last one that it applied; it has the state after it
    pending: Commit = NOTHING  # one that may or may not have succeeded
    is_evaluating: bool = False  # the next commit is of an evaluation
    worker: int | None = None  # a number of its worker; None: no other process belongs to it


class Role(Enum):
    """The way in which a process reaches the common state."""

    KEEPS = "keeps"  # it has the newest state
    APPLIES = "applies"  # it holds the step that leads from its own to the newest
    TAKES = "takes"  # it receives the newest from another process


@dataclass(frozen=True)
class RecoveryPlan:
    """The plan by which a world's processes reach one state, computed alike in each."""

    newest: Commit
    roles: tuple[Role, ...]  # by rank
    world_number: int  # of the world
    evaluation_is_passed: bool = False
    """Joining workers are in no evaluation, so each process that is in one ends it alone."""
    shards: int = 1  # of the model; consecutive ranks hold one copy of it
    workers: tuple[int | None, ...] = ()  # by rank

    @property
    def is_beginning(self) -> bool:
        """Whether no process has any state: the training begins, or continues from a checkpoint."""
        return self.newest == NOTHING

    @property
    def idle(self) -> frozenset[int]:
        """The copies of the model, by number, that receive state while the others compute a step.

        If each of them has a joining worker, all compute as soon as they have everything.
        """
        takes = {rank // self.shards for rank, role in enumerate(self.roles) if role is Role.TAKES}
        return frozenset(takes if len(takes) < len(self.roles) // self.shards else ())

    @property
    def agreed(self) -> Commit:
        """The commit that all have reached in the end.

        A passed evaluation counts as a commit of this world: one of the world before may still be
        pending in a process that is not here, which has no way from its state to this one.
        """
        if self.evaluation_is_passed:
            return Commit(self.world_number, self.newest.number + 1)
        return self.newest

    def sources_of(self, rank: int, most: int = MOST_SOURCES) -> tuple[int, ...]:
        """Return the ranks that send a process what it lacks; the first sends the description.

        All processes know a commit's sums, so one of them sends these. State comes from those that
        hold the same part of other copies of the model. There are no sources if such a process has
        yet to apply the newest commit, or if there is none. Receivers are spread evenly.
        """
        if self.roles[rank] is Role.APPLIES:
            keepers = self._ranks(Role.KEEPS, of_part=None)
            first, count = rank // self.shards, min(1, len(keepers))
        else:
            part = rank % self.shards
            keepers = self._ranks(Role.KEEPS, of_part=part)
            takers = self._ranks(Role.TAKES, of_part=part)
            count = num_sources(len(keepers), len(takers), most)
            number = takers.index(rank)
            # Either the next ones send, or all send and another one is the first of them.
            first = number * (count if count < len(keepers) else 1)
        return tuple(keepers[(first + place) % len(keepers)] for place in range(count))

    def mates_of(self, rank: int) -> tuple[int, ...]:
        """Return the processes of its worker that lack the same state, with itself, in rank order.

        Each gets a different share of it from elsewhere, and the rest from the others: so each
        worker receives a state once.
        """
        worker = self.workers[rank] if self.workers else None
        if worker is None:
            return (rank,)
        takers = self._ranks(Role.TAKES, of_part=rank % self.shards)
        return tuple(other for other in takers if self.workers[other] == worker)

    def _ranks(self, role: Role, *, of_part: int | None) -> list[int]:
        return [
            rank
            for rank, one in enumerate(self.roles)
            if one is role and of_part in {None, rank % self.shards}
        ]

    def must_restart(self, rank: int, states: Sequence[ProcessState]) -> bool:
        """Whether a process cannot continue in this world, and a new one must take its place.

        Either no process can send it its state, or only some of the processes that hold a copy of
        the model together are in an evaluation, which the others do not join.
        """
        if self.roles[rank] is Role.TAKES and not self.sources_of(rank):
            return True
        evaluates = [
            state.is_evaluating and role is not Role.APPLIES
            for state, role in zip(states, self.roles, strict=True)
        ]
        first = rank - rank % self.shards
        return evaluates[rank] and not all(evaluates[first : first + self.shards])


def plan_recovery(
    states: Sequence[ProcessState], world_number: int, shards: int = 1
) -> RecoveryPlan:
    """Return the plan for a world of processes with these states, by rank.

    A commit that any process has applied counts; one that none has applied is discarded.
    """
    newest = max((state.committed for state in states), default=NOTHING)
    roles = tuple(_role(state, newest) for state in states)
    is_evaluating = any(
        state.is_evaluating and role is Role.KEEPS
        for state, role in zip(states, roles, strict=True)
    )
    is_passed = is_evaluating and Role.TAKES in roles
    workers = tuple(state.worker for state in states)
    return RecoveryPlan(newest, roles, world_number, is_passed, shards, workers)


def num_sources(keepers: int, takers: int, most: int = MOST_SOURCES) -> int:
    """Return how many processes send a state to each of several that take it.

    Every source that is needed sends one share or more, so some send twice as much as others,
    unless the number of shares is nearly a multiple of the number of sources.
    """
    few = min(FEW_SOURCES, most, keepers)

    def skew(count: int) -> float:
        shares = takers * count
        return -(-shares // keepers) * keepers / shares

    return min(range(few, min(most, keepers) + 1), key=skew) if keepers else 0


def _role(state: ProcessState, newest: Commit) -> Role:
    if state.committed == newest:
        return Role.KEEPS
    return Role.APPLIES if state.pending == newest else Role.TAKES
