"""Ways to commit a step on the device: the kernels of a step, and what their flag is made of.

Each field of `Design` is a choice that looks small. The proposed design takes the safe side of all
of them, and the explorer shows for each other side a run in which it goes wrong.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import islice

Members = tuple[int, ...]


class Kind(Enum):
    """The work of a kernel."""

    BEGIN = auto()
    """Compute this member's gradients into the sums' place, and reset the flag to "no"."""
    SUM = auto()
    """Add up the gradients of a communicator's members."""
    CANARY = auto()
    """Add up ones on a communicator that has carried sums; it is not the commit's."""
    COMMIT = auto()
    """Add up ones over all members: the last collective of a step."""
    APPLY = auto()
    """Run the optimizer under the flag."""


@dataclass(frozen=True)
class Kernel:
    """One kernel of a step, and for a collective which members take part in each of its groups."""

    kind: Kind
    communicator: int = 0
    groups: tuple[Members, ...] = ()

    def mates(self, member: int) -> Members:
        """Return those that take part in this collective together with a member."""
        return next(group for group in self.groups if member in group)


@dataclass(frozen=True)
class Design:
    """One way to commit; the defaults are the proposed one."""

    members: int
    kernels: tuple[Kernel, ...]
    steps: int = 2
    kills: int = 1
    host_waits: bool = False
    """The host reads the flag before it puts the optimizer into the stream, and the next step after
    that; it does not know of an early end. Else it is a step ahead."""
    host_is_whole_steps_ahead: bool = False
    """An abort finds whole steps in the stream; else any number of kernels."""
    flag_is_reset: bool = True
    """The flag is reset before each step; else a commit that is cut off leaves the flag of the step
    before."""
    flag_is_exact: bool = True
    """The sum of ones has to equal the number of members; else any positive sum counts."""
    abort_is_for_ever: bool = True
    """Nothing runs on an aborted communicator again: it is replaced once its stream is empty."""
    commit_is_bare: bool = True
    """The commit carries the ones alone; else also numbers that the optimizer needs."""
    canaries_are_chained: bool = True
    """A member that lacks an earlier canary adds nothing to the commit; else it only applies
    nothing."""
    sums_are_kept: bool = True
    """A step's sums have a place of their own until its flag was read; else the next overwrites."""

    @property
    def copies(self) -> tuple[Members, ...]:
        """Return the smallest groups, the members of each of which are alike, as the groups are."""
        return next(kernel.groups for kernel in self.kernels if kernel.groups)

    @property
    def communicators(self) -> tuple[int, ...]:
        """Return a bit for each communicator."""
        return tuple({1 << kernel.communicator: None for kernel in self.kernels if kernel.groups})


WAITS = {"host_waits": True, "sums_are_kept": False}
"""The choices of `Run` over NCCL today (ADR 16)."""


def one_communicator(members: int, **choices: bool | int) -> Design:
    """Return the design where sums and commit share a communicator: four kernels a step."""
    everybody = (tuple(range(members)),)
    kernels = (
        Kernel(Kind.BEGIN),
        Kernel(Kind.SUM, 0, everybody),
        Kernel(Kind.COMMIT, 0, everybody),
        Kernel(Kind.APPLY),
    )
    return replace(Design(members, kernels), **choices)  # type: ignore[arg-type]


def sums_elsewhere(members: int, *, canary: bool, **choices: bool | int) -> Design:
    """Return the design where sums have a communicator of their own, with a canary there or not."""
    everybody = (tuple(range(members)),)
    first = (Kernel(Kind.CANARY, 0, everybody),) if canary else ()
    kernels = (
        Kernel(Kind.BEGIN),
        Kernel(Kind.SUM, 0, everybody),
        *first,
        Kernel(Kind.COMMIT, 1, everybody),
        Kernel(Kind.APPLY),
    )
    return replace(Design(members, kernels), **choices)  # type: ignore[arg-type]


def sums_in_copies(*sizes: int, **choices: bool | int) -> Design:
    """Return the design of copies of so many members: sums within a copy, the commit over all."""
    numbers = iter(range(sum(sizes)))
    copies = tuple(tuple(islice(numbers, size)) for size in sizes)
    kernels = (
        Kernel(Kind.BEGIN),
        Kernel(Kind.SUM, 0, copies),
        Kernel(Kind.CANARY, 0, copies),
        Kernel(Kind.COMMIT, 1, (tuple(range(sum(sizes))),)),
        Kernel(Kind.APPLY),
    )
    design = Design(sum(sizes), kernels, steps=1, kills=0, host_is_whole_steps_ahead=True)
    return replace(design, **choices)  # type: ignore[arg-type]


def unordered_streams(members: int) -> Design:
    """Return a design whose commit is on another stream and does not wait for the sum's end."""
    design = one_communicator(members)
    begin, total, commit, apply = design.kernels
    return replace(design, kernels=(begin, commit, total, apply))
