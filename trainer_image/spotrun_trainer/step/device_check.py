"""The check of devices: other processes compute a microbatch again, and compare the bits.

A device that computes wrong numbers reports no error. In deterministic mode the gradients of a
microbatch have the same bits on every process, so a second process can find that out. In the first
step of each world, and then every so many steps, each process computes one microbatch of the next
process again, before anything is applied. If two results differ, all processes drop the step, and
in its repetition all of them compute that microbatch: the majority is right.
"""

import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from spotrun import wire
from spotrun_trainer.data.order.sharding import deal
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.process.checksum import checksum_of
from spotrun_trainer.process.device import name_of_gpu, put
from spotrun_trainer.telemetry.console import say

MOST_SLIPS = 1
"""Wrong results of a process that are only reported, if it computes the same right afterwards."""

_NONE = 0  # instead of a checksum: there is nothing to compare


class DisputedStepError(Exception):
    """Two processes have different gradients of one microbatch; all of them repeat the step."""


class WrongDeviceError(Exception):
    """The device of this process computes other numbers than most others."""


class UndecidedError(Exception):
    """Processes have different gradients of one microbatch, and no result has a majority."""


@dataclass(frozen=True)
class Plan:
    """The microbatches that are computed twice in a step; the same in all processes."""

    blocks: Sequence[range]  # by rank: the microbatches that are dealt to it
    again: Sequence[int | None]  # by rank: a microbatch of another process

    def first_of(self, rank: int) -> int | None:
        """Return the microbatch of this rank that others compute again."""
        return next((one for one in self.blocks[rank] if one in self.again), None)

    def owner(self, number: int) -> int:
        """Return the rank to which a microbatch is dealt."""
        return next(rank for rank, block in enumerate(self.blocks) if number in block)


@dataclass(frozen=True)
class Results:
    """The checksums of one step by rank; the same in all processes."""

    first: Sequence[int]  # of the microbatch that is dealt to it
    second: Sequence[int]  # of the microbatch that it computed again


def check_interval(every: object, *, deterministic: bool, shards: int) -> None:
    """Raise ValueError if `Run(check_devices=every)` cannot be done with the other options."""
    if not isinstance(every, int) or every < 1:
        raise ValueError(f"check_devices={every!r}: give the number of steps between two checks")
    if not deterministic:
        raise ValueError(
            "check_devices= compares bits, which are the same on all processes only in "
            "deterministic mode: use Run(deterministic=True, check_devices=...)"
        )
    if shards > 1:
        raise ValueError(
            "check_devices= compares the gradients of whole copies of a model: leave it out if "
            "Run(shards=...) is above 1"
        )


def plan_of(blocks: Sequence[range], turn: int, number: int | None = None) -> Plan:
    """Choose a microbatch of the next process for each process that has any.

    `turn` counts the checks, so that each microbatch has its turn. If a `number` is given, all
    compute that microbatch.
    """
    busy = [rank for rank, block in enumerate(blocks) if block]
    again: list[int | None] = [None] * len(blocks)
    if len(busy) > 1:
        for rank, other in zip(busy, [*busy[1:], busy[0]], strict=True):
            theirs = blocks[other]
            again[rank] = theirs[turn % len(theirs)] if number is None else number
    return Plan(blocks, again)


def disputed(plan: Plan, results: Results) -> int | None:
    """Return the first microbatch of which two processes have different results."""
    for number, second in zip(plan.again, results.second, strict=True):
        if number is None or second == _NONE:
            continue
        if results.first[plan.owner(number)] not in {_NONE, second}:
            return number
    return None


def results_of(number: int, plan: Plan, results: Results) -> dict[int, int]:
    """Return the results of a microbatch by rank; of its owner, the one that the step uses."""
    found = {
        rank: second
        for rank, (one, second) in enumerate(zip(plan.again, results.second, strict=True))
        if one == number and second != _NONE
    }
    owner = plan.owner(number)
    return found | {owner: results.first[owner]}


def right_result(results: Sequence[int]) -> int | None:
    """Return the result that more than half of the processes have; None if there is none."""
    counts = Counter(one for one in results if one != _NONE)
    ((result, times),) = counts.most_common(1) or [(_NONE, 0)]
    return result if 2 * times > counts.total() else None


def wrong_ranks(
    right: int, earlier: Mapping[int, int], second: Sequence[int]
) -> tuple[set[int], set[int]]:
    """Return the ranks that are wrong again, and those that were wrong only before."""
    again = {rank for rank, one in enumerate(second) if one not in {_NONE, right}}
    before = {rank for rank, one in earlier.items() if one not in {_NONE, right}}
    return again, before - again


@dataclass
class DeviceCheck:
    """The check of one process; all processes of a world do the same in the same step."""

    every: int
    device: torch.device
    again: int | None = None  # the microbatch that this process computes again in this step
    is_done: bool = False  # this step is checked, or there is nobody to check it
    _is_due: bool = True
    _plan: Plan | None = None
    _first: int = _NONE
    _second: int = _NONE
    _dispute: tuple[int, dict[int, int]] | None = None  # a microbatch, and its results by rank
    _slips: Counter[int] = field(default_factory=Counter)  # by rank

    def enter(self) -> None:
        """Enter another world: its processes have other ranks, and its first step is checked."""
        self._is_due, self._dispute = True, None
        self._slips.clear()

    def begin(self, step: int, peers: Group, microbatches: int) -> None:
        """Begin a step, and choose what is computed again in it."""
        self._first = self._second = _NONE
        self._plan = self.again = None
        self.is_done = peers.size == 1
        if self._is_due or self._dispute is not None or step % self.every == 0:
            blocks = [
                deal(microbatches, peers.size, rank, peers.idle, peers.dealt)
                for rank in range(peers.size)
            ]
            number = None if self._dispute is None else self._dispute[0]
            self._plan = plan_of(blocks, step // self.every, number)
            self.again = self._plan.again[peers.rank]

    def request(self) -> None:
        """Check the next step that begins."""
        self._is_due = True

    def is_compared(self, microbatch: int, rank: int) -> bool:
        """Whether another process computes this microbatch of this rank again."""
        return self._plan is not None and microbatch == self._plan.first_of(rank)

    def note_first(self, gradients: Iterable[Tensor]) -> None:
        """Note the gradients of a microbatch that was dealt to this process."""
        self._first = _checksum(gradients)

    def note_second(self, gradients: Iterable[Tensor]) -> None:
        """Note the gradients of the microbatch that was computed again."""
        self._second = _checksum(gradients)

    def compare(self, step: int, peers: Group) -> None:
        """Compare the results of all processes.

        If two differ, it raises DisputedStepError in all of them. In the repetition it raises
        WrongDeviceError in the process whose result is wrong, or UndecidedError in all of them.
        """
        plan = self._plan
        if plan is None or peers.size == 1:
            return
        self._is_due = bool(peers.idle)  # they are checked once they compute
        self.is_done = True
        results = self._exchanged(peers)
        dispute, self._dispute = self._dispute, None
        if dispute is None:
            number = disputed(plan, results)
        else:
            number, earlier = dispute
            self._judge(number, earlier, results, peers.rank)
            if results.first[plan.owner(number)] in {_NONE, *results.second}:
                return  # and now the step has the right gradients
        if number is not None:
            self._dispute = number, results_of(number, plan, results)
            ranks = " and ".join(map(str, sorted(self._dispute[1])))
            raise DisputedStepError(
                f"ranks {ranks} have different gradients of microbatch {number} in step {step}: "
                "nothing of it is applied, and all processes compute this microbatch again"
            )

    def _judge(self, number: int, earlier: Mapping[int, int], results: Results, own: int) -> None:
        """Decide whose device is wrong, now that all have computed the microbatch."""
        right = right_result(results.second)
        if right is None:
            raise UndecidedError(
                f"the processes have different gradients of microbatch {number}, and no result "
                "has a majority: with two workers the check cannot say whose device is wrong; "
                "with more, the step is not deterministic, or the devices are of different models"
            )
        again, before = wrong_ranks(right, earlier, results.second)
        for rank in sorted(again | before):
            self._slips[rank] += 1
            is_slip = rank not in again and self._slips[rank] <= MOST_SLIPS
            if is_slip and own == 0:
                say(f"rank {rank} computed a wrong gradient once; nothing of it was applied")
            elif not is_slip and rank == own:
                raise WrongDeviceError(
                    f"{wire.WRONG_DEVICE}: {name_of_gpu(self.device) or 'the CPU'} of "
                    f"{socket.gethostname()} has another gradient of microbatch {number} than "
                    f"{results.second.count(right)} of {len(results.second)} processes"
                )
            elif not is_slip and own == 0:
                say(f"rank {rank} computes wrong gradients: its process ends")

    def _exchanged(self, peers: Group) -> Results:
        own = [_NONE] * (2 * peers.size)
        own[peers.rank], own[peers.size + peers.rank] = self._first, self._second
        told = [round(one) for one in peers.total(put(own, self.device))]
        return Results(told[: peers.size], told[peers.size :])


def _checksum(gradients: Iterable[Tensor]) -> int:
    return max(checksum_of(gradients), _NONE + 1)
