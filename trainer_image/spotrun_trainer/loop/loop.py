"""The training loop, from the first step to the last."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from spotrun_trainer.data.order.resumption import NOTHING_HELD, Held, resume
from spotrun_trainer.data.order.sharding import NOBODY
from spotrun_trainer.data.source import Source
from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.membership import Membership
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import RankInfo
from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.loop import completion, phase_results
from spotrun_trainer.loop.begin import begin
from spotrun_trainer.loop.boundary import Boundary
from spotrun_trainer.loop.dealing import Balance, Dealing
from spotrun_trainer.loop.memory.batch_size import BatchSize
from spotrun_trainer.loop.position import Position
from spotrun_trainer.loop.saving.saving import Saving
from spotrun_trainer.loop.speed_check import check_speeds, flops_of
from spotrun_trainer.loop.voter import Voter
from spotrun_trainer.parallel.fsdp import sharded_parts
from spotrun_trainer.process.interrupt import InterruptedStepError
from spotrun_trainer.process.stage import stage_of
from spotrun_trainer.state.stage_course import StageCourse
from spotrun_trainer.step import vote
from spotrun_trainer.step.batch import TooLargeError
from spotrun_trainer.step.buffers import Buffers
from spotrun_trainer.step.device_check import DeviceCheck, DisputedStepError
from spotrun_trainer.step.loss_guard import NotFiniteError, scaler_in
from spotrun_trainer.step.phase import Outcome
from spotrun_trainer.step.reduce.compression import Compression
from spotrun_trainer.step.step import Step
from spotrun_trainer.step.step_context import StepContext
from spotrun_trainer.step.vote import StepVote
from spotrun_trainer.telemetry.console import say
from spotrun_trainer.telemetry.profiling import Profiling
from spotrun_trainer.telemetry.speeds import Speeds, stopwatch_of


class Loop:
    """The loop of a training: enter a world, step after step, and complete or leave."""

    def __init__(
        self,
        context: Context,
        saving: Saving,
        source: Source,
        batch_size: BatchSize,
        total: int | None,
        *,
        sum_names: Sequence[str] = (),
        compression: Compression | None = None,
        balance: Balance = "even",
        counts_in_stage: bool = False,
        check_devices: int | None = None,
        check_speed: bool = False,
    ) -> None:
        stage = StageCourse(stage_of(), context.tracked.things)
        self.voter = Voter(context, saving, stage.index)
        self._position = Position(
            context,
            source,
            batch_size,
            self.voter,
            stage=stage,
            total=total,
            counts_in_stage=counts_in_stage,
        )
        self.settled: list[Outcome] = []
        self.membership = Membership(context, self)
        self._context = context
        self._saving = saving
        self._source = source
        self._batch_size = batch_size
        self._sum_names = sum_names
        self._compression = compression
        self._dealing = Dealing(context.trace)
        keep = context.kept_beside if context.place is not None else None
        self._profiling = Profiling(context.wanted_profile, keep, device=context.device)
        self._device_check = (
            None if check_devices is None else DeviceCheck(check_devices, context.device)
        )
        self._boundary = Boundary(
            context,
            saving,
            self._position,
            self.voter,
            self.membership,
            device_check=self._device_check,
        )
        self._checks_speed = check_speed
        self._speeds = Speeds(
            self._dealing.note if balance == "measured" else None,
            stopwatch=stopwatch_of(context.device),
        )
        self._votes = StepVote()  # the votes of all processes in the last step that was done
        self._began = 0.0
        self._step_context: StepContext | None = None
        self._gives_up = False  # a microbatch of the current step did not fit into memory here

    @property
    def microbatch(self) -> int:
        """The size of a microbatch in this world."""
        return self._batch_size.of(self._context.group.share.size).microbatch

    def steps(self) -> Iterator[Step]:
        """Yield all remaining steps; a discarded step is repeated."""
        try:
            self._saving.check_place()
            if self._context.rank_info.joins:
                yield from self._rehearse()
            self.membership.enter()
            # Until now there was nothing to lose, so SIGTERM ended the process at once.
            self._context.interrupt.listen()
            yield from self._steps_to_the_end()
        finally:
            self._source.close()
            self._profiling.close(self._context.step)
            self._saving.leave_place()
            self._context.close()

    def done(self, votes: StepVote) -> None:
        """Note that a step was applied, on all processes."""
        self.voter.step_seconds = time.monotonic() - self._began
        self._context.step += 1
        self._context.is_at_boundary = True
        self._position.samples += self._batch_size.global_batch
        self._votes = votes
        skipped = [one.skipped for one in self.settled if one.skipped]
        self.settled.clear()
        if skipped and self._device_check is not None:
            self._device_check.request()
        try:
            is_logged = self._context.group.rank == 0
            self._position.streak.note(skipped, step=self._context.step, is_logged=is_logged)
        except NotFiniteError:
            completion.finish_in_time(
                self._context, self._saving
            )  # of an earlier step, from which the next start continues
            raise

    def discarded(self, error: Exception) -> None:
        """Note that a step was not applied, on any process."""
        if isinstance(error, PeerLostError):
            self.membership.change(error)
        elif isinstance(error, TooLargeError):
            self._shrink(error)
        elif isinstance(error, DisputedStepError) and self._context.group.rank == 0:
            say(str(error))
        elif isinstance(error, InterruptedStepError):
            # Only if no phase of it was applied; one of several processes never saves alone.
            if (
                not self.settled
                and self._context.group.size == 1
                and completion.are_weights_finite(self._context)
            ):
                self._saving.begin_alone(self._position.pack())
            completion.leave(
                self._context, self._saving, f"step {self._context.step + 1} is dropped: {error}"
            )

    def sum(self, values: Mapping[str, float | Tensor]) -> None:
        """Add up numbers of a microbatch for the current step."""
        if self._step_context is None or self._step_context.sums is None:
            raise ValueError(
                "call run.sum in the loop over a step's microbatches, `for batch in step`, which "
                "counts each of them once; in an evaluation, return the sums from its function, "
                '{"hits": (hits, None)}'
            )
        self._step_context.sums.add_numbers(values)

    def save_and_leave(self) -> None:
        """Save, and end the process that must end, after all have learned of it outside a step.

        Under spotrun the others continue in the next world.
        """
        context = self._context
        votes = torch.tensor(
            vote.encode(self.voter.vote()), dtype=torch.float64, device=context.device
        )
        self._votes = vote.decode(context.group.total(votes))
        self._boundary.act(self._votes)
        self._saving.before_change()  # the script may change state after the repeated evaluation

    # The events of a WorldObserver.

    def begin(self) -> None:
        """Begin, or continue from a checkpoint: no process has any state."""
        if self._checks_speed:
            check_speeds(self._context)
        begin(self._context, self._saving, self._position)

    def pack(self) -> dict[str, Any]:
        """Return what a joining worker needs in addition to the tracked state."""
        settled, stop = phase_results.pack(self.settled), self._votes.stop
        kept = self._saving.local.pack()
        return {**self._position.pack(), "settled": settled, "stop": stop, "kept": kept}

    def unpack(self, extra: dict[str, Any]) -> None:
        """Continue from another process's `pack()`."""
        self._saving.before_change()  # a save of another state may be in flight
        self._position.go_on(extra)
        self._saving.local.unpack(extra.get("kept"))
        self.settled[:] = phase_results.unpack(extra["settled"], self._context.device)
        self._votes = StepVote(stop=extra["stop"])
        self._context.is_at_boundary = False
        # The others compute the first step after this without the joining worker.
        samples = self._position.samples + self._batch_size.global_batch
        share = replace(self._context.group.share, idle=NOBODY)
        self._source.expect(self._batch_size.of(share.size).block(samples, share))

    def held(self) -> Held:
        """Return what this process has computed of the next step."""
        return NOTHING_HELD if self._step_context is None else self._step_context.held()

    def wait(self) -> None:
        """Check saves while waiting for a world: they may become durable."""
        if self._context.interrupt.reason() is not None:
            completion.leave(
                self._context, self._saving, "told to end while waiting for the next world"
            )
        self._saving.look_while_waiting()
        if self._step_context is not None and not self._step_context.is_rehearsal:
            self._saving.keep_place_while_waiting()  # this process has a state that will continue

    def met(self) -> None:
        """Let the first process keep other trainings out, also while it gets state or evaluates."""
        if self._context.rank_info.elastic:
            self._saving.keep_place()
        self._saving.local.meet()

    def arrived(self) -> None:
        """Continue training in a new group, with the same state."""
        context = self._context
        self._votes = vote.without_plans(self._votes)
        self._boundary.enter()
        self._gives_up = False  # all processes have dropped the step already
        self.settled[:] = map(phase_results.without_plans, self.settled)
        if context.group.rank == 0:
            self._batch_size.say_if_idle(context.group.peers.size)
        if context.rank_info.elastic:
            self._saving.entered()
        if self._step_context is None or self._step_context.is_rehearsal:
            self._step_context = self._make_step_context(context.group)
        else:
            self._step_context.enter(context.group)
        context.group.peers.idle = self.membership.idle
        context.reporter.update(sync_bytes=self._step_context.sync_bytes())
        self._speeds.enter(context.group.rank, context.group.size)
        self._dealing.enter(context.group.peers.size, is_logged=context.group.rank == 0)
        context.report_arrival(**self._position.told())

    def _rehearse(self) -> Iterator[Step]:
        """Compute one microbatch while the others train, so that they need not wait later."""
        context = self._context
        if self._checks_speed:
            context.reporter.update(flops=flops_of(context.device))
        world = context.world()
        # A part of a model can compute nothing before the processes with the other parts have
        # arrived.
        if context.rank_info.shards > 1:
            context.reporter.update(ready=True, in_process=True)
        elif world is not None and not world.switch:
            context.is_at_boundary = False
            context.console_log.is_printed = False
            self._step_context = self._make_step_context(Group(), is_rehearsal=True)
            tried: int | None = -1
            while tried != self._batch_size.limit:  # until it fits
                tried = self._batch_size.limit
                self._step_context.batch = self._batch_size.of(world.size)
                yield Step(self._step_context, self, context.step + 1, self._position.samples)
            context.reporter.update(ready=True, in_process=True)
        context.wait_for_world(context.rank_info.world_number - 1, None, self.wait)

    def _steps_to_the_end(self) -> Iterator[Step]:
        context = self._context
        is_complete = False
        while not is_complete:
            while self._goes_on():
                assert self._step_context is not None, "the world was entered"
                self._began = time.monotonic()
                context.is_at_boundary = False
                self._deal(context.group)
                self._profile(context.rank_info)
                yield self._next_step(self._step_context)
                if context.is_at_boundary:
                    try:
                        self._boundary.act(self._votes)
                    except PeerLostError as error:  # in a collective among the parts of a model
                        self.membership.change(error)
            try:
                self._complete()
                is_complete = True
            except PeerLostError as error:
                self.membership.change(error)

    def _profile(self, rank_info: RankInfo) -> None:
        worker, local_rank = divmod(rank_info.rank, rank_info.local_size)
        self._profiling.begin_step(self._context.step + 1, worker=worker, is_first=local_rank == 0)

    def _next_step(self, step_context: StepContext) -> Step:
        """Return the next step, divided for the current world."""
        batch = self._batch_size.of(step_context.group.share.size)
        if step_context.group.rank == 0:
            self._batch_size.say_if_new(batch)
        step_context.batch = batch
        number = self._context.step + 1
        if self._device_check is not None and number == self._position.last_step:
            self._device_check.request()
        group = step_context.group
        part = resume(self.membership.held, batch.microbatches, group.rank, self.membership.idle)
        return Step(
            step_context,
            self,
            number,
            self._position.samples,
            gives_up=self._gives_up,
            resumption=None if self._gives_up else part,
        )

    def _shrink(self, error: TooLargeError) -> None:
        """Continue with smaller microbatches, after all processes have dropped the step."""
        assert self._step_context is not None, "a step was begun"
        group = self._step_context.group
        self._gives_up = not error.is_agreed and group.size > 1
        if not self._gives_up:
            self._batch_size.shrink(error.microbatch, is_logged=group.rank == 0)

    def _deal(self, group: Group) -> None:
        """Decide which process computes which microbatches of the next step."""
        group.peers.idle = idle = self.membership.idle
        share, number = group.share, self._context.step + 1
        of_a_part = self._batch_size.of(share.size).microbatches // share.parts
        group.peers.dealt = self._dealing.of_step(of_a_part, idle, number=number)

    def _make_step_context(self, group: Group, *, is_rehearsal: bool = False) -> StepContext:
        context = self._context
        step_context = StepContext(
            group=group,
            source=self._source,
            batch=self._batch_size.of(group.share.size),
            buffers=Buffers(
                (one for one in context.things if isinstance(one, nn.Module)), context.buffer_rules
            ),
            device=context.device,
            seed=context.seed,
            deterministic=context.deterministic and not is_rehearsal,
            meter=context.meter,
            check_time=self.voter.check_time,
            vote=self.voter.vote,
            commit=self.membership.commit,
            before_change=self._saving.before_change,
            finish_giving=self.membership.finish_giving,
            scaler=scaler_in(context.things),
            compression=self._compression,
            tracked=context.tracked,
            things=context.things,
            sharded_parts=[] if context.mesh is None else sharded_parts(context.things),
            speeds=self._speeds,
            sum_names=self._sum_names,
            is_rehearsal=is_rehearsal,
            device_check=None if is_rehearsal else self._device_check,
            keeps=self._keeps(is_rehearsal=is_rehearsal),
        )
        step_context.use([one for one in context.things if isinstance(one, Optimizer)])
        context.reporter.update(
            microbatches=self._batch_size.most_microbatches,
            epoch_samples=self._source.length,
        )
        return step_context

    def _keeps(self, *, is_rehearsal: bool) -> bool:
        """Whether computed microbatches are kept when the world breaks.

        Not in deterministic mode: other processes would add up other subtrees. Not if several
        processes hold a copy together: all of them would have to hold the same ones. Not if a
        process that runs out of memory takes part in sums of a step that all will drop.
        """
        context = self._context
        is_plain = not context.deterministic and context.rank_info.shards == 1
        may_be_dropped = is_rehearsal or self._batch_size.of(1).may_shrink
        return context.rank_info.elastic and is_plain and not may_be_dropped

    def _complete(self) -> None:
        """Complete the training: save its last state until it is durable."""
        self.membership.finish_giving()
        completion.complete(self._context, self._saving, self._position.pack)

    def _goes_on(self) -> bool:
        """Whether there is another step; first begin pending transfers of state."""
        try:
            self.membership.begin_step()
        except PeerLostError as error:
            self.membership.change(error)
        end = self._position.last_step
        is_last = end is not None and self._context.step >= end
        return not is_last and not self._votes.stop
