"""Measuring a script's needs: its own loop computes on fake tensors."""

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import FlopCounterMode

from spotrun_trainer.data.order.sharding import Block
from spotrun_trainer.data.source import Source
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.loop.memory import blocks, fakes
from spotrun_trainer.loop.memory.by_block import BlockBytes, called_behind
from spotrun_trainer.loop.memory.live_bytes import LiveBytes
from spotrun_trainer.loop.memory.needs import PLAN_FILE, Needs
from spotrun_trainer.parallel.blocks import blocks_of
from spotrun_trainer.step.batch import Batch
from spotrun_trainer.step.buffers import Buffers
from spotrun_trainer.step.loss_guard import scaler_in
from spotrun_trainer.step.phase import Outcome
from spotrun_trainer.step.reduce.bucket import accumulation_dtype
from spotrun_trainer.step.step import Step
from spotrun_trainer.step.step_context import StepContext
from spotrun_trainer.step.vote import StepVote

AS_WRITTEN, CHECKPOINTED = "as written", "checkpointed"
BF16, BF16_CHECKPOINTED = "bf16", "bf16, checkpointed"


class _FakeSource:
    """A source that yields the first microbatch only, without its content."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._batch: Any = None
        self.dtype: torch.dtype | None = None  # for floating-point numbers, if not their own type

    def microbatches(self, block: Block) -> Iterator[Any]:
        if self._batch is None:
            self._batch = fakes.faked(next(iter(self._source.microbatches(block))))
        yield tree_map(self._cast, self._batch)

    def _cast(self, one: object) -> object:
        if self.dtype is None or not isinstance(one, Tensor) or not one.is_floating_point():
            return one
        return one.to(self.dtype)


class Planner:
    """Yields steps for the script's loop body, and notes what each of them needs."""

    def __init__(
        self, context: Context, source: Source, batch: Batch, sum_names: Sequence[str]
    ) -> None:
        self.settled: list[Outcome] = []
        self._context = context
        self._opened = source
        self._source = _FakeSource(source)
        self._batch = batch
        self._sum_names = sum_names
        self._modules = [one for one in context.things if isinstance(one, nn.Module)]
        self._optimizers = [one for one in context.things if isinstance(one, Optimizer)]
        self._activations: dict[str, int] = {}
        self._by_block: dict[str, dict[str, int]] = {}
        self._behind: list[nn.Module] = []  # the modules that are called after blocks
        self._left_out: dict[str, str] = {}
        self._flops = 0
        self._weight: float | None = None
        self._step_context: StepContext | None = None

    def sum(self, values: Mapping[str, float | Tensor]) -> None:
        """Add up numbers of a microbatch, as a step does."""
        if self._step_context is not None and self._step_context.sums is not None:
            self._step_context.sums.add_numbers(values)

    def done(self, votes: StepVote) -> None:
        """Refuse a step that was applied: a plan applies none."""
        raise AssertionError

    def discarded(self, error: Exception) -> None:
        """Do nothing: each step of a plan is discarded at its update."""

    def steps(self) -> Iterator[Step]:
        """Yield a step for each variant; then write the result, and end the script."""
        for module in self._modules:
            fakes.fake_module(module)
        self._context.is_at_boundary = False  # nothing is evaluated
        try:
            yield from self._count()
            yield from self._variant(AS_WRITTEN, nullcontext())
            yield from self._variants()
        finally:
            self._opened.close()
        found = self._needs()
        Path(os.environ[PLAN_FILE]).write_text(json.dumps(dataclasses.asdict(found)))
        raise SystemExit(0)  # the script has done its task

    def _variants(self) -> Iterator[Step]:
        every = list(blocks_of(self._modules))
        is_chosen = any(map(blocks.is_checkpointed, every))
        if not every or is_chosen:
            why = "the script chose it" if is_chosen else "the model has no nn.ModuleList of blocks"
            self._left_out |= dict.fromkeys((CHECKPOINTED, BF16_CHECKPOINTED), why)
        else:
            yield from self._variant(CHECKPOINTED, self._checkpointed())
        weights = [one for module in self._modules for one in module.parameters()]
        if any(one.is_floating_point() and one.dtype != torch.float32 for one in weights):
            self._left_out |= dict.fromkeys((BF16, BF16_CHECKPOINTED), "weights are not in 32 bits")
            return
        yield from self._variant(BF16, self._in_bf16())
        if CHECKPOINTED in self._activations:
            with self._checkpointed():
                yield from self._variant(BF16_CHECKPOINTED, self._in_bf16())

    def _checkpointed(self) -> AbstractContextManager[object]:
        stack = ExitStack()
        for module in self._modules:
            if found := list(blocks_of([module])):
                blocks.checkpoint_blocks(module, "full")
                stack.callback(blocks.keep_all, found)
        return stack

    def _in_bf16(self) -> AbstractContextManager[object]:
        stack = ExitStack()
        stack.enter_context(fakes.in_bf16(self._modules))
        stack.callback(setattr, self._source, "dtype", None)
        self._source.dtype = torch.bfloat16
        return stack

    def _variant(self, name: str, changed: AbstractContextManager[object]) -> Iterator[Step]:
        """Yield the step of a variant; the first must succeed; others are left out if they fail."""
        live = LiveBytes()
        with changed:
            hooks = [
                one.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    lambda weight: live.ignore(weight.grad)
                )
                for module in self._modules
                for one in module.parameters()
                if one.requires_grad
            ]
            by_block = BlockBytes(self._modules, list(blocks_of(self._modules)), live)
            with fakes.fake_mode(), by_block.noting(), live:
                yield self._step()
            for hook in hooks:
                hook.remove()
        self._activations[name] = live.most
        if found := by_block.found():
            self._by_block[name] = found

    def _count(self) -> Iterator[Step]:
        """Yield a step that counts operations: a separate one, as counting keeps tensors longer."""
        behind = called_behind(self._modules, list(blocks_of(self._modules)))
        with fakes.fake_mode(), FlopCounterMode(display=False) as flops:
            step = self._step()
            yield step
        self._behind = behind()
        self._flops, self._weight = int(flops.get_total_flops()), step.weight

    def _step(self) -> Step:
        self._step_context = self._make_step_context()
        return Step(self._step_context, self, 1, 0)

    def _make_step_context(self) -> StepContext:
        context = self._context
        nothing: Callable[..., Any] = lambda *_: None  # noqa: E731
        step_context = StepContext(
            group=Group(),
            source=self._source,  # type: ignore[arg-type]  # it has all that a step uses
            batch=self._batch,
            buffers=Buffers(self._modules, context.buffer_rules),
            device=context.device,
            has_addresses=False,
            seed=context.seed,
            deterministic=False,
            meter=context.meter,
            check_time=nothing,
            vote=StepVote,
            commit=nothing,
            before_change=nothing,
            scaler=scaler_in(context.things),
            things=context.things,
            sum_names=self._sum_names,
            is_rehearsal=True,
        )
        step_context.use(self._optimizers)
        return step_context

    def _needs(self) -> Needs:
        weights = _unique(one for module in self._modules for one in module.parameters())
        buffers = _unique(one for module in self._modules for one in module.buffers())
        updated = _unique(
            one
            for optimizer in self._optimizers
            for group in optimizer.param_groups
            for one in group["params"]
            if one.requires_grad
        )
        every = [_unique(one.parameters()) for one in blocks_of(self._modules)]
        in_blocks = _unique(one for block in every for one in block)  # some may share weights
        behind = _unique(one for part in self._behind for one in part.parameters(recurse=False))
        per_sample = None if self._weight is None else self._weight / self._batch.microbatch
        update_bytes = self._update(updated)
        return Needs(
            parameters=sum(one.numel() for one in weights),
            trained=sum(one.numel() for one in updated),
            weight_bytes=_bytes(weights) + _bytes(buffers),
            gradient_bytes=_bytes(updated),
            sum_bytes=sum(one.numel() * accumulation_dtype(one).itemsize for one in updated),
            optimizer_bytes=_bytes(_unique(_state_of(self._optimizers))),
            update_bytes=update_bytes,
            block_bytes=max(map(_bytes, every), default=0),
            rest_bytes=_bytes(weights) - _bytes(in_blocks),
            behind_bytes=_bytes(behind),
            blocks=len(every),
            microbatch=self._batch.microbatch,
            global_batch=self._batch.global_batch,
            weight_per_sample=per_sample,
            flops=self._flops,
            activation_bytes=self._activations,
            block_activations=self._by_block,
            left_out=self._left_out,
        )

    def _update(self, updated: Sequence[Tensor]) -> int:
        """Let the optimizers step, so that their state exists; return what else that needs.

        The second step is measured: as on a GPU, all tensors are updated at once ("foreach").
        """
        for one in updated:
            one.grad = torch.empty_like(one)
        for optimizer in self._optimizers:
            optimizer.step()
            for group in optimizer.param_groups:
                if group.get("foreach", False) is None and not group.get("fused"):
                    group["foreach"] = True
        live = LiveBytes()
        with live:
            for optimizer in self._optimizers:
                optimizer.step()
        return live.most


def _state_of(optimizers: Sequence[Optimizer]) -> Iterator[Tensor]:
    for optimizer in optimizers:
        for state in optimizer.state.values():
            yield from (one for one in state.values() if isinstance(one, Tensor))


def _unique(tensors: Iterable[Tensor]) -> list[Tensor]:
    return list({id(one): one for one in tensors}.values())


def _bytes(tensors: Sequence[Tensor]) -> int:
    return sum(one.numel() * one.element_size() for one in tensors)
