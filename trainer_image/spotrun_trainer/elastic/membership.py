"""A process's membership in one world after another: its commits, and transfers of state.

When a world breaks, its survivors meet in the next one, exchange what each has committed, and reach
the same state: a step that any of them has applied is applied by all, others are discarded.
Joining workers get the state from a survivor. If no process has any state, the training begins.

While joining workers receive the state the others compute the next step without them. But all
commit it, a joining worker once it has everything: so the state that the step began with is sent,
all apply the step to that, and no second state has to be kept or sent. In a world that forms during
an evaluation the transfer waits for the next step, because scripts change state by its result.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import astuple
from typing import Any, Protocol

import torch
from torch import Tensor

from spotrun_trainer.data.order.resumption import NOTHING_HELD, Held, decode, encode
from spotrun_trainer.data.order.sharding import NOBODY
from spotrun_trainer.elastic import state_transfer
from spotrun_trainer.elastic.errors import PeerLostError, StrandedError, WorldChangedError
from spotrun_trainer.elastic.pending_collectives import Pending
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.recovery_plan import (
    NOTHING,
    Commit,
    ProcessState,
    RecoveryPlan,
    Role,
    plan_recovery,
)
from spotrun_trainer.elastic.state_shares import numbers_from_outside
from spotrun_trainer.elastic.state_transfer import Mates, Place
from spotrun_trainer.elastic.world_context import Context


class WorldObserver(Protocol):
    """The owner of a training's other state, which is told of changes of worlds."""

    def begin(self) -> None:
        """Begin, or continue from a checkpoint: no process has any state."""

    def pack(self) -> dict[str, Any]:
        """Return what a joining worker needs beside the tracked state, as JSON."""

    def unpack(self, extra: dict[str, Any]) -> None:
        """Continue from another process's `pack()`; the tracked state is about to change."""

    def held(self) -> Held:
        """Return what this process has computed of the step after its last commit."""

    def wait(self) -> None:
        """Called repeatedly while the process waits for a world."""

    def met(self) -> None:
        """There is another group; this process may get its state only after a long time."""

    def arrived(self) -> None:
        """Called in a new group, once this process holds the same state as all."""


class Membership:
    """The commits of this process, and its way from one world into the next."""

    def __init__(self, context: Context, observer: WorldObserver) -> None:
        self.evaluates_alone = False  # until the next step, which joining workers join
        self.idle: AbstractSet[int] = NOBODY  # copies of the model that receive state in this step
        self.held: Sequence[Held] = ()  # by each process, of the step that continues in this world
        self._context = context
        self._observer = observer
        self._committed = NOTHING
        self._numbers = torch.empty(0)  # the sums of the last commit
        self._is_evaluating = False
        self._is_torn = False  # part of the tracked state is old, part is received; or may be
        self._is_proven = True  # what it got over NCCL is whole, as a commit after it shows
        self._giving: list[Pending] = []
        # The plan and the rank of a transfer of state that begins with the next step.
        self._owed: tuple[RecoveryPlan, int] | None = None

    def enter(self) -> None:
        """Enter the first world."""
        try:
            self._settle(NOTHING, None)
        except PeerLostError as error:
            self.change(error)

    def commit(self, numbers: Tensor) -> None:
        """Sum numbers over all processes, in place; all of them apply the result, or none.

        If the world breaks, the survivors find out in the next world which of the two holds. Raises
        WorldChangedError if no survivor has the result.
        """
        context = self._context
        pending = Commit(context.rank_info.world_number, self._committed.number + 1)
        try:
            self.finish_giving()
            _sum(context.group, numbers)
            self._committed, self.idle, self.held = pending, NOBODY, ()
            self._is_torn, self._is_proven = False, True
        except PeerLostError as error:
            if not self.change(error, pending, numbers):
                raise WorldChangedError from error
        self._numbers = numbers

    def begin_step(self) -> None:
        """Begin to send joining workers the state, or receive it; raises PeerLostError.

        During an evaluation this was postponed until now.
        """
        self.evaluates_alone = False
        if self._owed is None:
            return
        (plan, rank), self._owed = self._owed, None
        if plan.roles[rank] is Role.KEEPS:
            self._give_state(plan, rank)
        else:
            self._take(plan, rank)
            self._committed, self.idle = plan.agreed, plan.idle
            self._observer.arrived()

    def finish_giving(self) -> None:
        """Return once joining workers have received this process's state, which may change then."""
        self.begin_step()
        for one in self._giving:
            one.wait()
        self._giving.clear()

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """Mark the block as an evaluation: not part of a step, and unknown to joining workers."""
        self._is_evaluating = True
        try:
            yield
        finally:
            self._is_evaluating = False

    def change(
        self,
        error: Exception | None,
        pending: Commit = NOTHING,
        numbers: Tensor | None = None,
    ) -> bool:
        """Leave this world for the next one: after an error, or with None together with all.

        Return whether the pending commit was made by others: then `numbers` are their sums.
        """
        context = self._context
        self._leave(error)
        while True:
            with context.meter.span("wait"):
                context.wait_for_world(context.rank_info.world_number, error, self._observer.wait)
            try:
                role = self._settle(pending, numbers)
            except PeerLostError as lost:
                error = lost
                self._leave(lost)
            else:
                return role is Role.APPLIES

    def _leave(self, error: Exception | None) -> None:
        self._context.leave_world(error)
        self._giving.clear()
        self._owed = None
        if not self._is_proven:  # unless all others have the pending commit, which proves it
            self._committed = NOTHING

    def _settle(self, pending: Commit, numbers: Tensor | None) -> Role:
        """Meet the others, and reach the same state; raises PeerLostError."""
        context = self._context
        worker = context.rank_info.rank - context.rank_info.local_rank
        state = ProcessState(self._committed, pending, self._is_evaluating, worker)
        states, held = self._exchange(state) if context.rank_info.elastic else ((), ())
        plan = plan_recovery(states, context.rank_info.world_number, context.rank_info.shards)
        self.held = [
            one if role is Role.KEEPS else NOTHING_HELD
            for one, role in zip(held, plan.roles, strict=True)
        ]
        if plan.is_beginning:
            self._check_whole()
            self._observer.begin()
            self._observer.met()
            self._committed, self.idle = Commit(context.rank_info.world_number, 0), NOBODY
            self._is_proven = not context.group.is_nccl
            self._observer.arrived()
            return Role.KEEPS
        rank = context.group.rank
        if plan.must_restart(rank, states):
            raise StrandedError(
                f"no process of world {context.rank_info.world_number} can send this process the "
                "state that the others have; this process is started again"
            )
        self._observer.met()
        role = plan.roles[rank]
        if role is Role.APPLIES:
            assert numbers is not None, "a pending commit has numbers"
            (source,) = plan.sources_of(rank)
            context.group.receive([numbers], source).wait()
            self._numbers = numbers
        else:
            self._give_numbers(plan, rank)
            self._owed = plan, rank
        if Role.APPLIES in plan.roles:
            context.group.prove(context.device)
        if role is Role.TAKES:  # until all of it is here, the state is not valid
            self._committed, self._is_torn = NOTHING, True
        else:
            self._committed, self.idle = plan.agreed, plan.idle
            self._is_torn, self._is_proven = False, True
        if not self._is_evaluating:
            self.begin_step()
        if role is not Role.TAKES:  # a receiver arrives with the state
            self._observer.arrived()
        # A process with an older state evaluates alone, too.
        is_older = self._is_evaluating and role is Role.TAKES
        self.evaluates_alone = is_older or (plan.evaluation_is_passed and role is not Role.TAKES)
        return role

    def _exchange(self, own: ProcessState) -> tuple[Sequence[ProcessState], Sequence[Held]]:
        group = self._context.group
        state = (*astuple(own.committed), *astuple(own.pending), int(own.is_evaluating), own.worker)
        row = (*state, *encode(self._observer.held()))
        table = group.all_gather(torch.tensor(row, device=self._context.device)).tolist()
        group.prove(self._context.device)
        states = [
            ProcessState(Commit(*row[:2]), Commit(*row[2:4]), bool(row[4]), row[5]) for row in table
        ]
        return states, [decode(row[len(state) :]) for row in table]

    def _give_numbers(self, plan: RecoveryPlan, rank: int) -> None:
        group = self._context.group
        for other, role in enumerate(plan.roles):
            if role is Role.APPLIES and rank in plan.sources_of(other):
                self._giving.append(group.send([self._numbers], other))

    def _give_state(self, plan: RecoveryPlan, rank: int) -> None:
        """Begin to send the state to the ranks that need it; `finish_giving` waits for it."""
        context, group = self._context, self._context.group
        snapshot: state_transfer.Snapshot | None = None
        for other, role in enumerate(plan.roles):
            if role is not Role.TAKES or rank not in (sources := _sources(plan, other, group)):
                continue
            if snapshot is None:
                extra = self._observer.pack()
                snapshot = state_transfer.take_snapshot(context.tracked, extra)
            mates = _mates(plan, other, group)
            numbers = numbers_from_outside(mates.place, len(sources))
            number = numbers[sources.index(rank)]
            place = Place(number, len(mates.ranks) * len(sources), numbers[0])
            self._giving.append(state_transfer.send(group, other, snapshot, context.device, place))

    def _take(self, plan: RecoveryPlan, rank: int) -> None:
        context = self._context
        group, device = context.group, context.device
        sources = _sources(plan, rank, group)
        with context.meter.span("restore"):
            header = state_transfer.receive_header(group, sources[0], device)
            # First: samples are loaded while weights arrive.
            self._observer.unpack(header.extra)
            mates = _mates(plan, rank, group)
            state_transfer.receive(group, sources, context.tracked, header, device, mates=mates)
        self._is_torn, self._is_proven = group.is_nccl, not group.is_nccl

    def _check_whole(self) -> None:
        if self._is_torn:
            raise StrandedError(
                "the process that sent the state was lost before this process had received all of "
                "it, so this process has no valid state; it is started again"
            )


def _sum(group: Group, numbers: Tensor) -> None:
    """Sum over all processes, in place; also raises PeerLostError if one of them took no part.

    Over NCCL the proof is a sum of its own: that of the numbers might have ended early (ADR 10).
    """
    if group.size == 1:
        return
    if group.is_nccl:
        begun = group.all_reduce(numbers)
        group.prove(numbers.device)
        begun.wait()
        return
    shares = torch.cat([numbers, numbers.new_ones(1)])
    group.all_reduce(shares).wait()
    group.check_all(shares[-1])
    numbers.copy_(shares[:-1])


def _sources(plan: RecoveryPlan, rank: int, group: Group) -> tuple[int, ...]:
    """Return the ranks that send a process its state; one over NCCL, where messages take turns."""
    sources = plan.sources_of(rank, 1) if group.is_nccl else plan.sources_of(rank)
    assert sources, "a process without a source is stranded"
    return sources


def _mates(plan: RecoveryPlan, rank: int, group: Group) -> Mates:
    """Return the ranks that take the state together with a process: over NCCL, none."""
    ranks = (rank,) if group.is_nccl else plan.mates_of(rank)
    return Mates(ranks, ranks.index(rank))
