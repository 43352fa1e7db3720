"""Whose state counts when a world comes together: a pure function of what its processes say.

A *commit* is a sum by which all processes go on: the end of a step, of one of its phases, or of an
evaluation. Nobody passes it without everybody having taken part, so when a world breaks its
processes are at most one commit apart, and those behind still hold what the commit would apply.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, order=True)
class Commit:
    """A place in the history of a training; a later world's counts more than any older one's."""

    generation: int = 0  # of the world that it was made in; 0: nothing was committed
    number: int = 0  # since the processes were started


NOTHING = Commit()


@dataclass(frozen=True)
class ProcessState:
    """What a process brings into a world."""

    committed: Commit = NOTHING  # the last one that it has gone on by; it has the state after it
    pending: Commit = NOTHING  # one of which it does not know whether it came about
    is_evaluating: bool = False  # what the next commit is of


class Role(Enum):
    """What a process does about its state."""

    KEEPS = "keeps"  # it has the newest
    APPLIES = "applies"  # it holds what leads from its own to the newest
    TAKES = "takes"  # it gets the newest from another one


@dataclass(frozen=True)
class RecoveryPlan:
    """What the processes of a world conclude, all the same."""

    newest: Commit
    roles: tuple[Role, ...]  # by rank
    generation: int  # of the world
    evaluation_is_passed: bool = False
    """Newcomers are in no evaluation, so each of those that are ends it for itself."""
    shards: int = 1  # that the model has; neighbouring ranks hold one copy of it

    @property
    def is_beginning(self) -> bool:
        """Whether nobody has any state: the training begins, or goes on from a checkpoint."""
        return self.newest == NOTHING

    @property
    def idle(self) -> frozenset[int]:
        """The copies of the model, by number, that get state while the others compute a step.

        Where there is a newcomer in each of them, all compute as soon as they have everything.
        """
        takes = {rank // self.shards for rank, role in enumerate(self.roles) if role is Role.TAKES}
        return frozenset(takes if len(takes) < len(self.roles) // self.shards else ())

    @property
    def agreed(self) -> Commit:
        """What all have committed in the end.

        A passed evaluation counts as a commit of this world: one of the world before may be pending
        still, in a process that is not here, and nothing leads from its state to this one.
        """
        if self.evaluation_is_passed:
            return Commit(self.generation, self.newest.number + 1)
        return self.newest

    def source_of(self, rank: int) -> int | None:
        """From whom a process gets what it lacks; those who need something are spread evenly.

        What is committed all know alike, but state has only who holds the same part of the model.
        None: whoever does has yet to apply what leads to it, or nobody does.
        """
        keepers = [
            other
            for other, role in enumerate(self.roles)
            if role is Role.KEEPS
            and (self.roles[rank] is Role.APPLIES or (other - rank) % self.shards == 0)
        ]
        return keepers[rank // self.shards % len(keepers)] if keepers else None

    def must_restart(self, rank: int, states: Sequence[ProcessState]) -> bool:
        """Whether a process cannot go on in this world, but only a new one in its place.

        Nobody can give it its state; or only some of those who hold a copy of the model together
        are in an evaluation, and the others do not come there.
        """
        if self.roles[rank] is Role.TAKES and self.source_of(rank) is None:
            return True
        evaluates = [
            state.is_evaluating and role is not Role.APPLIES
            for state, role in zip(states, self.roles, strict=True)
        ]
        first = rank - rank % self.shards
        return evaluates[rank] and not all(evaluates[first : first + self.shards])


def plan_recovery(states: Sequence[ProcessState], generation: int, shards: int = 1) -> RecoveryPlan:
    """What becomes of the state in a world of processes with these standings, by rank.

    What anybody has committed is committed; what nobody has is discarded.
    """
    newest = max((state.committed for state in states), default=NOTHING)
    roles = tuple(_role(state, newest) for state in states)
    is_evaluating = any(
        state.is_evaluating and role is Role.KEEPS
        for state, role in zip(states, roles, strict=True)
    )
    is_passed = is_evaluating and Role.TAKES in roles
    return RecoveryPlan(newest, roles, generation, evaluation_is_passed=is_passed, shards=shards)


def _role(state: ProcessState, newest: Commit) -> Role:
    if state.committed == newest:
        return Role.KEEPS
    return Role.APPLIES if state.pending == newest else Role.TAKES
