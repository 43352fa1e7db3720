"""The trainer's public API: the class `Run` of training scripts."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar, get_args, overload

import torch
from torch import Tensor, nn

from spotrun_trainer.data.run_data import Collate, Data, Sources
from spotrun_trainer.data.source import check_goes_back
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.world_context import open_context
from spotrun_trainer.hooks.watches import WATCH
from spotrun_trainer.loop.dealing import Balance, check_balance
from spotrun_trainer.loop.evaluation.evaluate import (
    LossFunction,
    MetricsFunction,
    Participants,
    metrics,
    repeat_until_committed,
)
from spotrun_trainer.loop.loading.load_weights import load_weights
from spotrun_trainer.loop.loop import Loop
from spotrun_trainer.loop.memory.batch_size import BatchSize, Microbatch
from spotrun_trainer.loop.memory.blocks import Checkpointing
from spotrun_trainer.loop.memory.needs import Needs, is_planned, needs_of
from spotrun_trainer.loop.prepare import needs_scaler, prepared
from spotrun_trainer.loop.saving.local_first import first_of_a_worker
from spotrun_trainer.loop.saving.save_schedule import SaveSchedule
from spotrun_trainer.loop.saving.saving import Saving
from spotrun_trainer.parallel import Parallel
from spotrun_trainer.parallel.fsdp import check_optimizers, sum_gradients
from spotrun_trainer.parallel.pipeline import InStages, Make, Schedules
from spotrun_trainer.parallel.precision import Precision, dtype_of
from spotrun_trainer.process.stage import Stage, stage_of
from spotrun_trainer.state.tracked import Rule, Stateful
from spotrun_trainer.state.wrapper_check import check_plain, check_unwrapped
from spotrun_trainer.step.batch import earlier, total_steps, until_step
from spotrun_trainer.step.checks import schedules
from spotrun_trainer.step.device_check import check_interval
from spotrun_trainer.step.loss_guard import OwnScaler
from spotrun_trainer.step.reduce.compression import (
    Compression,
    Name,
    check_unscaled,
    compression_of,
)
from spotrun_trainer.step.reduce.tree_sum import check_leaves
from spotrun_trainer.step.step import Step
from spotrun_trainer.step.totals import check_names
from spotrun_trainer.telemetry.console import Value

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from spotrun_trainer.loop.memory.measure import Planner

M = TypeVar("M", bound=nn.Module)
P = ParamSpec("P")
T = TypeVar("T")


KEEP = 3


class Run:
    """One training: alone, under torchrun, or moved, grown and shrunk by spotrun.

        run = Run(seed=1)
        model = run.prepare(Model())
        opt = torch.optim.AdamW(model.parameters())
        run.track(model=model, opt=opt)
        for step in run.steps(train, global_batch=64, microbatch=8, total=100):
            with step:
                for x, y in step:
                    step.backward(cross_entropy(model(x), y), mean_of=y.numel())
                step.update(opt)

    seed            the seed of weights, the order of samples, and all random numbers in steps
    deterministic   compute the same bits at every number of processes; a step then has a power of
                        two of microbatches, and is slower
    checkpoint      the directory for checkpoints; default: SPOTRUN_CHECKPOINT, else none
    every           how often to save: "auto" (as often as pays), seconds, "10m", "500 steps";
                    default: SPOTRUN_CHECKPOINT_EVERY, else "auto"
    keep            the number of checkpoints to keep; default: SPOTRUN_CHECKPOINT_KEEP, else 3
    parallel        the processes that hold one copy of the model together, by torch's own means:
                        Parallel(shard=2); `run.mesh` is torch's DeviceMesh of them
    shards          the same for a model that you divide yourself: each process computes its part
                        on the same samples; the processes are torch.distributed's default group,
                        and its rank is the number of the part
    compress        sum gradients over copies in fewer bytes: "bf16", "powersgd", "topk", or
                        PowerSGD(rank=2), TopK(ratio=0.001); what it costs is in
                        docs/which-parallelism.md
    check_devices   in deterministic mode: in every so many steps, and in the first one of a world,
                    each process computes a microbatch of another one again, and they compare the
                    bits; a process whose device computes wrong numbers is ended, with an error
    check_speed     before the first step, measure for a moment how fast each device computes and
                    each worker's network sends; the operator names a worker that is much slower
    balance         "even": all processes get as many microbatches of a step, within one;
                        "measured": faster ones get more, where GPUs of several types are mixed
    device          the device; default: one of this machine's GPUs for each of its processes, or
    CPU
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        deterministic: bool = False,
        checkpoint: str | Path | None = None,
        every: float | str | None = None,
        keep: int | None = None,
        shards: int = 1,
        parallel: Parallel | None = None,
        compress: "Name | Compression | None" = None,
        check_devices: int | None = None,
        check_speed: bool = False,
        balance: Balance = "even",
        device: torch.device | str | None = None,
    ) -> None:
        if parallel is not None:
            _check_parallel(shards, deterministic=deterministic)
        if check_devices is not None:
            check_interval(check_devices, deterministic=deterministic, shards=shards)
        if is_planned():  # then one process has the whole model, on tensors without content
            parallel, shards, checkpoint, deterministic, device = None, 1, None, False, "cpu"
        self._compression = compression_of(
            compress,
            deterministic=deterministic,
            shards=shards,
            tensor=parallel.tensor if parallel is not None else 1,
        )
        check_balance(balance)
        self._check_devices = check_devices
        self._check_speed = check_speed and not is_planned()
        self._balance: Balance = balance
        WATCH.turn_off()  # the loop reports steps, and knows more of them
        self._context = open_context(
            seed,
            deterministic=deterministic,
            place=str(checkpoint or os.environ.get("SPOTRUN_CHECKPOINT") or "") or None,
            keep=int(os.environ.get("SPOTRUN_CHECKPOINT_KEEP", KEEP)) if keep is None else keep,
            device=device,
            shards=shards,
            parallel=parallel,
        )
        if every is None:
            every = os.environ.get("SPOTRUN_CHECKPOINT_EVERY", "auto")
        self._saving = Saving(self._context, SaveSchedule(every))
        self._loop: Loop | None = None
        self._planner: Planner | None = None
        self._schedules = Schedules()  # of evaluations
        self._onces = 0
        self._stage = stage_of()
        self._sources = Sources(seed, self._context.rank_info.local_size)

    @staticmethod
    def plan(script: str | Path, *arguments: str, timeout_seconds: float = 600) -> Needs:
        """Return the memory that a training script needs, without computing anything.

        It is run in a process of its own up to its first step, on tensors without content. `kubectl
        tjob plan --script` says which machines have that memory, and what they cost. A script whose
        first step takes longer to reach is ended, with a ValueError.
        """
        return needs_of(script, *arguments, timeout_seconds=timeout_seconds)

    @property
    def device(self) -> torch.device:
        """The device that this process computes on."""
        return self._context.device

    @property
    def mesh(self) -> "DeviceMesh":
        """The processes of one copy of the model, as torch's fully_shard and others use them.

        Its dimension is "shard"; with Parallel(tensor=...) there is "tensor" within it, and with
        Parallel(pipeline=...) "pp" around these. A pipeline alone has only "pp".
        """
        if self._context.mesh is None and is_planned():
            raise ValueError(
                "run.mesh does not exist in a plan: there one process has the whole model, and "
                "the memory for parts or stages is computed from that. Use run.mesh only where "
                "the script's arguments ask for several stages or divided layers, and plan with "
                "arguments that ask for one stage and undivided layers"
            )
        if self._context.mesh is None:
            raise ValueError(
                "run.mesh exists only if several processes hold a copy of the model together: use "
                "Run(parallel=Parallel(shard=2)), for example, and start a multiple of 2 processes"
            )
        mesh: DeviceMesh = self._context.mesh
        return mesh

    @property
    def rank(self) -> int:
        """The number of this process; it may change from step to step."""
        return self._context.rank_info.rank

    @property
    def world_size(self) -> int:
        """The number of processes; it may change from step to step."""
        return self._context.rank_info.size

    @property
    def step(self) -> int:
        """The number of steps that are done."""
        return self._context.step

    @property
    def stage(self) -> Stage | None:
        """The stage of the job's spec.stages that this process trains; None without stages.

        `run.stage.name`, `run.stage.index` from 0 on, and `run.stage.until_step` or None. A process
        is in one stage: the next one is trained by processes of its own.
        """
        return self._stage

    def once(self, prepare: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `prepare` in every process: in one of each worker first, then in the others.

        Its downloads and unpacked files exist when the others call it; each gets its own result.
        """
        self._onces += 1
        return first_of_a_worker(
            self._context.rank_info, self._onces, lambda: prepare(*args, **kwargs)
        )

    def prepare(
        self,
        model: M,
        *,
        shard: bool = False,
        precision: Precision | None = None,
        checkpointing: Checkpointing | None = None,
        compile: bool = False,  # noqa: A002 - torch's word
    ) -> M:
        """Move a model to this process's device, and return it.

        `shard=True` divides it among the processes of `parallel`: each entry of an `nn.ModuleList`
        by itself, then all that is left, as torch's `fully_shard` does. With one process for a copy
        it stays whole. `precision="bf16"` computes in 16 bits, with parameters, gradients and
        results in 32: by `fully_shard`'s own policy where the model is sharded, else by autocast.
        "fp16" scales losses too, by a GradScaler that is tracked as "grad_scaler".

        `checkpointing="full"` keeps of each of these blocks only its input for the backward pass,
        and computes the rest again; "selective" keeps the results of matrix products and attention
        as well. `compile=True` compiles each block by itself.
        """
        context = self._context
        if precision == "fp16" and self._loop is None and needs_scaler(context):
            self.track(grad_scaler=OwnScaler(context.device.type))
        return prepared(
            context,
            model,
            shard=shard,
            dtype=dtype_of(precision),
            checkpointing=checkpointing,
            is_compiled=compile,
        )

    def track(self, *, buffers: Rule | None = None, **things: Stateful) -> None:
        """Track the objects that make up the training: modules, optimizers, all with a state_dict.

        All of them are in every checkpoint, and restored from there. `buffers` says how a step
        combines its microbatches' changes to these modules' buffers: "mean", "sum", or "last".
        """
        if buffers is not None and buffers not in get_args(Rule):
            raise ValueError(f'buffers={buffers!r}: give "mean", "sum" or "last"')
        if self._loop is not None:
            raise ValueError(
                "run.track was called after run.steps, which restores the tracked objects: call "
                "it before"
            )
        for name, thing in things.items():
            check_plain(name, thing, self._context.mesh)
            self._context.tracked.add(name, thing)
            self._context.things.append(thing)
            if buffers is not None:
                self._context.buffer_rules[id(thing)] = buffers

    def load(
        self, model: nn.Module, path: str | Path, *, prefix: str | None = None, strict: bool = True
    ) -> None:
        """Begin with existing weights: of Hugging Face, safetensors, torch, DCP, or a run.

        Call it after `run.prepare`: each process reads what it holds of the model. After
        `run.track` nothing is read if the training continues from a checkpoint. `prefix` is how
        names there begin; with `strict=False` tensors that are missing there stay as they are.
        """
        if self._loop is not None:
            raise ValueError(
                "run.load was called after run.steps, which has begun with other weights: call it "
                "before"
            )
        if not is_planned():
            load_weights(self._context, model, Path(path), prefix=prefix, strict=strict)

    def steps(
        self,
        data: Data,
        *,
        global_batch: int,
        microbatch: Microbatch,
        total: int | None = None,
        epochs: float | None = None,
        shuffle: bool = True,
        num_workers: int | Literal["auto"] = "auto",
        collate: Collate | None = None,
        sums: Sequence[str] = (),
    ) -> Iterator[Step]:
        """Yield the steps that are left of `total` or `epochs`; without both, steps without an end.

        A step is `global_batch` samples at every number of processes, divided among them in
        microbatches of `microbatch`; "auto" takes the largest that fit into memory. When the loop
        ends by itself, the last checkpoint is durable.
        `sums` has the names of the numbers for `run.sum`.
        """
        if self._loop is not None:
            raise ValueError("run.steps was called twice: a run is one training, with one loop")
        if not self._context.things:
            raise ValueError(
                "call run.track(...) before run.steps: name the model, the optimizer, and all "
                "else that has to be in a checkpoint"
            )
        check_unwrapped(self._context.things)
        schedules.check_tracked(self._context.things)
        if microbatch == "auto" and is_planned():
            microbatch = 1  # needs are measured with one sample
        plan = self._context.rank_info.parallel
        parts = 1 if plan is None or self._context.mesh is None else plan.shard
        batch_size = BatchSize(global_batch, microbatch, parts)
        batch_size.check(self._context)
        if microbatch == "auto" and self._context.replica is not None:
            self._context.replica.vote()
        batch = batch_size.of(self._context.rank_info.replicas)
        if self._context.mesh is not None:
            batch.check_parts(parts)
            check_optimizers(self._context.things)
            sum_gradients(self._context.things)
        check_unscaled(self._compression, self._context.things)
        if self._context.deterministic:
            check_leaves(batch.microbatches)
        check_names(sums)
        source = self._sources.to_train(
            data, batch.microbatch, shuffle=shuffle, num_workers=num_workers, collate=collate
        )
        if self._balance == "measured":
            check_goes_back(data, 'balance="measured"')
        if self._check_devices is not None:
            check_goes_back(data, "check_devices=")
        end = earlier(total_steps(batch, source.length, total, epochs), until_step())
        if is_planned():
            from spotrun_trainer.loop.memory.measure import Planner  # noqa: PLC0415 - takes long

            self._planner = Planner(self._context, source, batch, tuple(sums))
            return self._planner.steps()
        self._loop = Loop(
            self._context,
            self._saving,
            source,
            batch_size,
            end,
            sum_names=tuple(sums),
            compression=self._compression,
            balance=self._balance,
            counts_in_stage=epochs is not None,
            check_devices=self._check_devices,
            check_speed=self._check_speed,
        )
        return self._loop.steps()

    def stop(self) -> None:
        """End the training with the next step that all processes agree on; any rank may call it."""
        if self._loop is not None:
            self._loop.voter.is_stopping = True

    def every(self, steps: int) -> bool:
        """Whether the number of steps done is a multiple of `steps`; the same on all ranks."""
        return self._context.is_at_boundary and self._context.step % steps == 0

    def sum(self, **values: float | Tensor) -> None:
        """Add up a microbatch's numbers; `step.sums` has the sums over all processes.

        Call it in the loop over a step's microbatches; each microbatch counts once, even if workers
        are lost. The names are those of `run.steps(..., sums=[...])`.
        """
        loop = self._loop or self._planner
        if loop is None:
            raise ValueError("run.sum was called before run.steps: call it within the steps")
        loop.sum(values)

    def log(self, **values: Value) -> None:
        """Print values of this step, on rank 0; a tensor is fetched when it has been computed.

        Those of rank 0 that are numbers are in the job's status, too: a search compares trials by
        them.
        """
        context = self._context
        # Inside a step the values are of that step, outside of the one that was done last.
        context.console_log.note(context.step + (not context.is_at_boundary), values)

    @overload
    def evaluate(
        self,
        model: nn.Module,
        data: Data,
        loss: LossFunction,
        *,
        microbatch: int | None = None,
        pipeline: Make | None = None,
    ) -> float: ...

    @overload
    def evaluate(
        self,
        model: nn.Module,
        data: Data,
        loss: MetricsFunction,
        *,
        microbatch: int | None = None,
        pipeline: Make | None = None,
    ) -> dict[str, float]: ...

    def evaluate(
        self,
        model: nn.Module,
        data: Data,
        loss: LossFunction | MetricsFunction,
        *,
        microbatch: int | None = None,
        pipeline: Make | None = None,
    ) -> float | dict[str, float]:
        """Compute the mean of a loss over a dataset, the same on all ranks, in evaluation mode.

        `loss(model, batch)` returns the mean over the batch, or a sum and its weight; or a dict of
        metrics by name, where `(sum, None)` is added up and not divided. `microbatch` and the
        collate function are those of the steps, unless `microbatch` is given. Of a model in stages
        `pipeline` is the function that makes the schedule, as for `step.pipeline`.
        """
        context, loop = self._context, self._loop
        if loop is not None and not context.is_at_boundary:
            raise ValueError(
                "run.evaluate belongs after a step that is done: call it after the block of `with "
                "step:`, if run.every(...) says so; a worker that joins would not reach a call "
                "inside the block, or after a dropped step, together with the others"
            )

        stages = context.rank_info.stages
        if stages > 1 and pipeline is None:
            raise ValueError(
                "run.evaluate got a stage of a pipeline, which has no result of its own: give it "
                "the function that makes the schedule, run.evaluate(..., pipeline=schedule)"
            )
        # The line of the last step is printed, even if others follow quickly.
        context.console_log.keep_line(context.step)

        def attempt(participants: Participants) -> float | dict[str, float]:
            present = microbatch or (None if loop is None else loop.microbatch)
            with self._sources.to_evaluate(data, present) as (source, size):
                whole = None
                if pipeline is not None and stages > 1:
                    group = context.group
                    schedule = self._schedules.of(pipeline, group, size)
                    whole = InStages(schedule, size, group.plan.stage_of(group.number), stages)
                return metrics(
                    context, model, source, size, loss, participants=participants, stages=whole
                )

        if loop is not None:
            return repeat_until_committed(context, loop, attempt)
        if context.rank_info.shards > 1:
            raise ValueError(
                "run.evaluate was called before run.steps: the processes that hold the model "
                "together meet when the first step begins, so evaluate in the loop"
            )
        # A process that joins the others later evaluates here alone, before it meets them.
        group = Group() if context.rank_info.joins else context.group
        return attempt(Participants(group))


def _check_parallel(shards: int, *, deterministic: bool) -> None:
    if shards > 1:
        raise ValueError("shards= and parallel= both say who holds a copy: give one of them")
    if deterministic:
        raise ValueError(
            "deterministic=True does not work with parallel=: torch adds up a copy's gradients in "
            "its own order"
        )
