"""The context of a step, made when a world is entered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from spotrun_trainer.data.order.resumption import NOTHING_HELD, Held, Resumption, ranges_of
from spotrun_trainer.data.source import Source
from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.pending_collectives import Done
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.parallel import fsdp
from spotrun_trainer.parallel.giving_up import GivingUp
from spotrun_trainer.parallel.local import is_sharded, local
from spotrun_trainer.parallel.pipeline import Schedules
from spotrun_trainer.process.rng import seed_all
from spotrun_trainer.state.optimizer_parameters import all_of, parameters_of
from spotrun_trainer.state.tracked import Tracked
from spotrun_trainer.step.batch import Batch, TooLargeError
from spotrun_trainer.step.buffers import Buffers
from spotrun_trainer.step.deterministic_reduce import TreeGradients
from spotrun_trainer.step.device_check import DeviceCheck
from spotrun_trainer.step.gradients import (
    BucketedGradients,
    Gradients,
    LocalGradients,
    clear,
    plain_bytes,
)
from spotrun_trainer.step.inner import InnerSteps
from spotrun_trainer.step.loss_guard import Scaler
from spotrun_trainer.step.reduce.compression import Compression
from spotrun_trainer.step.reduce.partial import Partial
from spotrun_trainer.step.reduce.reducer import Reducer
from spotrun_trainer.step.totals import Sums
from spotrun_trainer.step.vote import StepVote
from spotrun_trainer.telemetry.meter import Meter
from spotrun_trainer.telemetry.speeds import Speeds


@dataclass
class StepContext:
    """The group, the data and the gradients of a step, and its calls into the loop."""

    group: Group
    source: Source
    batch: Batch
    buffers: Buffers
    device: torch.device
    seed: int
    deterministic: bool
    meter: Meter
    check_time: Callable[[], None]  # raises InterruptedStepError if a step cannot be finished
    vote: Callable[[], StepVote]  # this process's vote at the end of a step
    commit: Callable[[Tensor], None]  # sums over all, or raises WorldChangedError
    before_change: Callable[[], None]  # returns when the tracked state may change
    finish_giving: Callable[[], None] = lambda: None  # returns when no process reads it
    has_addresses: bool = True  # of tensors; those of a plan have no addresses and no content
    is_rehearsal: bool = False  # nothing is applied, and no other process takes part
    scaler: Scaler | None = None  # of losses, in fp16
    compression: Compression | None = None  # of the sums over copies
    tracked: Tracked = field(default_factory=Tracked)
    things: Sequence[object] = ()  # the tracked objects
    sharded_parts: Sequence[Any] = ()  # the modules that torch has divided
    schedules: Schedules = field(default_factory=Schedules)  # of a pipeline
    speeds: Speeds = field(default_factory=Speeds)  # by which microbatches may be dealt
    sum_names: Sequence[str] = ()  # of the script's own sums
    sums: Sums | None = None  # of the microbatch being computed; None between microbatches
    device_check: DeviceCheck | None = None
    inner: InnerSteps = field(default_factory=InnerSteps)
    keeps: bool = False  # computed parts of a step are kept when the world breaks
    partial: Partial | None = None  # of the step being computed, if it is kept
    resumption: Resumption | None = None  # of the current step, if it continues an earlier try
    optimizers: list[Optimizer] = field(default_factory=list)  # the tracked ones
    checked: set[int] = field(default_factory=set)  # ids of a step's objects that are tracked
    _gradients: dict[int, Gradients] = field(default_factory=dict)
    # By phase number: the optimizers that the phase updated in all steps of this world.
    _updated: dict[int, set[int]] = field(default_factory=dict)
    _expected: Sequence[Gradients] = ()  # to be summed in the current phase
    _place: dict[int, int] = field(default_factory=dict)  # of a parameter, as modules register them

    def __post_init__(self) -> None:
        self.keeps = self.keeps and self.compression is None and self.scaler is None
        self._reducer = Reducer(self.group.peers, self.compression, keeps=self.keeps)

    def gradients(self, optimizer: Optimizer) -> Gradients:
        """Return the gradients of a tracked optimizer."""
        found = self._gradients.get(id(optimizer))
        if found is None:
            raise ValueError(
                f"step.update got a {type(optimizer).__name__} that is not tracked, so checkpoints "
                "would lack its state: give it to run.track(...) before run.steps(...)"
            )
        return found

    @property
    def looks_at_gradients(self) -> bool:
        """Whether to compute the gradient's norm if it only shows whether the gradient is finite.

        A scaler depends on it; and computing it is cheap on a GPU, but not on a CPU.
        """
        return self.scaler is not None or self.device.type != "cpu"

    def all_gradients(self) -> Sequence[Gradients]:
        """Return the gradients of all optimizers."""
        return list(self._gradients.values())

    def sync_bytes(self) -> int:
        """Return the bytes of an all-reduce that sends as much as all processes do in a step."""
        size = self.group.peers.size
        return sum(gradients.sync_bytes(size) for gradients in self._gradients.values())

    def held_bytes(self) -> dict[str, int]:
        """Return the bytes that this process holds between two microbatches, by their use."""
        modules = [one for one in self.things if isinstance(one, nn.Module)]
        weights = {id(one): one for module in modules for one in module.parameters()}
        states = [state for one in self.optimizers for state in one.state.values()]
        return {
            "weights": sum(local(one).nbytes for one in weights.values()),
            "gradients": sum(plain_bytes(one.parameters) for one in self.all_gradients()),
            "optimizer state": sum(
                local(one).nbytes
                for state in states
                for one in state.values()
                if isinstance(one, Tensor)
            ),
        }

    def use(self, optimizers: Sequence[Optimizer]) -> None:
        """Manage the gradients of these optimizers."""
        self.optimizers = list(optimizers)
        self._follow_parameters()

    def enter(self, group: Group) -> None:
        """Enter another group; gradients follow it with the next step."""
        self.group = group
        self.buffers.keep()  # a joining worker received these with the state
        self.buffers.forget_agreement()  # joining workers have not agreed to it
        self._updated.clear()  # nor do they have these
        if self.device_check is not None:
            self.device_check.enter()

    @property
    def is_given_up(self) -> bool:
        """Whether a process of this copy has no memory for the present microbatch."""
        votes = self._votes()
        return votes is not None and votes.has_given_up

    @property
    def can_give_up(self) -> bool:
        """Whether the other processes of this copy, if any, learn of it."""
        votes = self._votes()
        return votes is None or not votes.is_amid_collective

    def give_up(self) -> None:
        """Make this copy drop the step, and take part in the sums that the others wait for."""
        if (votes := self._votes()) is not None:
            votes.give_up()
        self.finish_sums()

    def check_fits(self) -> None:
        """Raise TooLargeError if a microbatch did not fit into another process of this copy."""
        if self.is_given_up:
            self.give_up()
            raise TooLargeError(self.batch.microbatch, is_agreed=False)

    def begin_anew(self) -> None:
        """Forget that the step was given up, after all have dropped it."""
        replica = self.group.replica
        try:
            if (votes := self._votes()) is not None:
                votes.begin_anew()
        except PeerLostError as error:
            assert replica is not None, "it has votes"
            replica.lost = error  # all have agreed on the step: the error is raised in the next one

    def _votes(self) -> GivingUp | None:
        return None if self.group.replica is None else self.group.replica.giving_up

    def lost(self) -> PeerLostError | None:
        """Return the loss of a peer during a microbatch, when it could not be raised."""
        return self.group.replica.lost if self.group.replica is not None else None

    def check(self) -> None:
        """Raise if this step cannot be finished."""
        self.check_time()
        self.group.check()

    def begin_phase(self, phase: int, *, are_sent: bool = False) -> None:
        """Begin a phase, whose last backward overlaps with the sums of its final gradients.

        All processes must expect the same sums, also those that compute nothing. A single optimizer
        is always updated; with several, earlier steps show which are. `are_sent` says that
        `finish_sums` has sent these already.
        """
        known = self._updated.get(phase, set[int]()) if len(self._gradients) > 1 else None
        self._expected = [
            one for key, one in self._gradients.items() if known is None or key in known
        ]
        buckets = [bucket for one in self._expected for bucket in one.buckets]
        # The last parameters of a model get their gradients first.
        buckets.sort(key=lambda bucket: self._place[id(bucket.parameters[-1])], reverse=True)
        if are_sent:
            self._expected, sent, buckets = (), buckets, []
            for bucket in sent:
                bucket.work = Done()
        self._reducer.expect(buckets)
        if (resumption := self.resumption) is not None:
            for bucket in buckets[: resumption.buckets]:
                bucket.is_elsewhere = not resumption.gives

    def finish_sums(self) -> None:
        """Take part in the sums that others wait for, with gradients that all of them will drop."""
        self._reducer.finish((), are_dropped=True)

    def expect_last(self) -> None:
        """Note that the next backward is the last of a step or phase."""
        for one in self._expected:
            one.expect_last()

    def reduce(self, phase: int, optimizers: Sequence[Optimizer]) -> int:
        """Sum the gradients of these optimizers; return how many parameters got none here."""
        updated = {id(one) for one in optimizers}
        self._updated[phase] = updated & self._updated.get(phase, updated)
        return sum(self.gradients(one).reduce() for one in optimizers)

    def drop_gradients(self) -> None:
        """Drop the gradients of all optimizers."""
        for gradients in self._gradients.values():
            gradients.drop()

    def begin(self, step: int, resumption: Resumption | None = None) -> None:
        """Begin a step with the current buffers, and its own random numbers.

        Earlier gradients (from a sanity check, or a search for a learning rate) are dropped, except
        those of a step that continues.
        """
        goes_on = resumption is not None and resumption.keeps
        if goes_on and not self._are_same_parameters():
            # The others rely on what this process holds, but it has no buckets for these gradients.
            goes_on = False
            if self.group.size > 1:
                self.group.cut()
        self.resumption = resumption if self.group.size > 1 or goes_on else None
        if goes_on:
            self._reducer.group = self.group.peers
        else:
            self.partial = None
            self._follow_parameters()
            self.drop_gradients()
        for optimizer in self.optimizers:
            clear(all_of(optimizer))  # it would apply a frozen parameter's gradient, too
        self.buffers.keep()
        if self.device_check is not None:
            self.device_check.begin(step, self.group.peers, self.batch.microbatches)
        seed_all(self.seed, step)

    @property
    def computed_again(self) -> int | None:
        """The microbatch of another process that this one computes again in the present step."""
        return self.device_check.again if self.device_check is not None else None

    def present_gradients(self) -> list[Tensor]:
        """Return what the last backward has left at the parameters of all optimizers."""
        parameters = (one for each in self.all_gradients() for one in each.parameters)
        return [one.grad for one in parameters if one.grad is not None]

    def begin_partial(self) -> Partial | None:
        """Return this process's part of the step: what it has kept, or an empty part.

        None if it keeps nothing.
        """
        can_keep = self.keeps and all(one.can_keep for one in self.all_gradients())
        if self.partial is None and can_keep:
            self.partial = Partial(self.batch.microbatches, self.device, self.sum_names)
        return self.partial

    def held(self) -> Held:
        """Return what this process holds of a step after the world has broken.

        Over NCCL nothing: sums that no commit has proved may be partial, and lie where the
        gradients were.
        """
        partial, order = self.partial, self._reducer.order
        if partial is None or not partial.numbers or self.inner.count or self.group.is_nccl:
            return NOTHING_HELD
        summed = [bucket.is_summed for bucket in order]
        buckets = (*summed, False).index(False)
        all_buckets = [bucket for one in self.all_gradients() for bucket in one.buckets]
        if sum(bucket.is_summed for bucket in all_buckets) != buckets:
            return NOTHING_HELD  # not in an order that all processes share
        return Held(partial.microbatches, ranges_of(partial.numbers), buckets)

    def drop_whole_tensors(self) -> None:
        """Drop the tensors of a forward pass without a backward, before the parts change."""
        fsdp.drop_whole_tensors(self.sharded_parts)

    def discard(self, *, goes_on: bool = False) -> None:
        """Undo the changes of a step that is not applied.

        If it `goes_on` in another world, complete microbatches are kept.
        """
        is_kept = goes_on and self.partial is not None and not self.inner.count
        self.inner.set_back()
        self.sums = None
        fsdp.forget_pass(self.sharded_parts)
        self.buffers.set_back()
        kept = [is_kept and one.keep() for one in self.all_gradients()]
        if not (is_kept and all(kept)):
            self.partial = None
            self.drop_gradients()

    def _are_same_parameters(self) -> bool:
        """Whether no parameter was frozen or added between two tries of a step."""
        return all(
            {id(one) for one in parameters_of(optimizer)}
            == {id(one) for one in self.gradients(optimizer).parameters}
            for optimizer in self.optimizers
        )

    def _follow_parameters(self) -> None:
        """Adapt to parameters that scripts have frozen, unfrozen, or added to optimizers."""
        owned = set[int]()
        self._reducer.group = self.group.peers
        for optimizer in self.optimizers:
            parameters = parameters_of(optimizer)
            ids = {id(parameter) for parameter in parameters}
            if not owned.isdisjoint(ids):
                raise ValueError(
                    "two optimizers share a parameter: only one of them can use a gradient; do "
                    "not track the optimizer of step.inner_update"
                )
            owned |= ids
            known = self._gradients.get(id(optimizer))
            is_same = known is not None and {id(one) for one in known.parameters} == ids
            if known is not None and not (is_same and known.follow(self.group.peers)):
                known.close()
                known = None
            self._gradients[id(optimizer)] = known or self._open(parameters)

    def _open(self, parameters: Sequence[nn.Parameter]) -> Gradients:
        peers = self.group.peers
        if self.group.share.parts > 1 and not all(map(is_sharded, parameters)):
            raise ValueError(
                "an optimizer updates parameters that torch has not divided among the processes of "
                "a copy, so their gradients would not be added up: with parallel= call "
                "run.prepare(model, shard=True), or fully_shard(model, mesh=run.mesh) on the "
                "whole model after its blocks, and make the optimizer after that"
            )
        if self.deterministic:
            return TreeGradients(parameters, peers, self.batch.microbatches)
        if self.compression is None and LocalGradients.fits(parameters, peers):
            return LocalGradients(parameters)
        self._place = _registered(self.things, self.optimizers)
        ordered = sorted(parameters, key=lambda one: self._place[id(one)])
        return BucketedGradients(ordered, self._reducer)


def _registered(things: Sequence[object], optimizers: Sequence[Optimizer]) -> dict[int, int]:
    """Number parameters as modules register them, then those in optimizers alone."""
    modules = [one for one in things if isinstance(one, nn.Module)]
    found = dict.fromkeys(id(one) for module in modules for one in module.parameters())
    found |= dict.fromkeys(id(one) for owner in optimizers for one in parameters_of(owner))
    return {key: number for number, key in enumerate(found)}
