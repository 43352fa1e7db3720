"""`keep`: the state of a plain loop, in memory across restarts."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from spotrun_trainer.hooks.progress import check_whole, progress
from spotrun_trainer.kept import exchange
from spotrun_trainer.kept.agreement import Claim, Plan, agree
from spotrun_trainer.kept.handle import Kept
from spotrun_trainer.kept.image import Writer, load
from spotrun_trainer.kept.node_copy import NodeCopy, open_copy
from spotrun_trainer.kept.position import Position
from spotrun_trainer.process import threads
from spotrun_trainer.state.tracked import Stateful, Tracked
from spotrun_trainer.telemetry.console import say

_has_kept = False


def keep(
    *,
    step: int = 0,
    epoch: int = 0,
    every: int = 1,
    seed: int | None = None,
    **things: Stateful,
) -> Kept:
    """Keep the state of these objects in memory across restarts, and load the newest one.

    things  objects with `state_dict` and `load_state_dict`, each under a name of its own. All that
            the training continues from has to be among them, and the same on all processes
    step    the steps that were done in the checkpoint that the script has loaded into them; if
            another process, or the memory of a worker, has a newer state, that one is loaded
    epoch   the epochs that were done in it
    every   the number of steps between two copies: a loss without notice costs one less at most
    seed    seed the random numbers of Python, torch and numpy at each step, from this, the step and
            the rank: so a step that is repeated draws the same numbers again

    All processes call it, once, after init_process_group. Outside of a TrainingJob, and where there
    is no room, nothing is kept, and the log says so.
    """
    global _has_kept  # noqa: PLW0603 - the memory of a worker holds one state
    _check(step=step, epoch=epoch, every=every, things=things)
    if _has_kept:
        raise ValueError("keep was called twice in a process: give one call all objects")
    exchange.check_group()
    threads.await_gloo_at_exit()
    tracked = Tracked()
    for name, thing in things.items():
        tracked.add(name, thing)
    writer, copy = Writer(tracked), open_copy()
    writer.image({})  # raises now for what cannot be kept, not after the first step
    _has_kept = True
    step, position = _begin(writer, tracked, copy, Loaded(step, Position(epoch)))
    progress(step=step)
    return Kept(writer, copy, step=step, position=position, every=every, seed=seed)


class Loaded(NamedTuple):
    """The state that a script has loaded from a file; at its start step 0."""

    step: int
    position: Position


def _begin(writer: Writer, tracked: Tracked, copy: NodeCopy, loaded: Loaded) -> Loaded:
    """Load the state that all agree on; return the place at which it continues."""
    header = copy.header()
    own = Claim(loaded.step) if header is None else Claim(loaded.step, header.step, header.size)
    plan = agree(exchange.all_claims(own))
    if not plan.is_kept and not plan.lacking:
        return loaded
    if exchange.rank() == 0:
        say(_words(plan))
    lacks = exchange.rank() in plan.lacking
    memory = _memory(plan, writer, copy, loaded)
    if plan.lacking:
        memory = exchange.bytes_from(plan.source, memory, lacks=lacks)
    position = loaded.position
    if plan.is_kept or lacks:
        position = Position.from_json(_load(memory, tracked)["position"])
    exchange.wait_for_all()  # the state may be overwritten from here on
    return Loaded(plan.step, position)


def _memory(plan: Plan, writer: Writer, copy: NodeCopy, loaded: Loaded) -> Tensor:
    """Return the bytes of the agreed state; empty if it has to come from another process."""
    if exchange.rank() in plan.lacking:
        return torch.empty(0, dtype=torch.uint8)
    if plan.is_kept:
        return copy.content()
    if exchange.rank() != plan.source:
        return torch.empty(0, dtype=torch.uint8)
    return writer.image({"position": loaded.position.to_json()}).to_bytes()


def _load(memory: Tensor, tracked: Tracked) -> dict[str, Any]:
    try:
        return load(memory, tracked)
    except ValueError as error:
        raise ValueError(
            f"{error}; it was kept in memory by an earlier start of this script: to begin without "
            "it, suspend the job, and resume it"
        ) from error


def _words(plan: Plan) -> str:
    where = "a worker's memory" if plan.is_kept else "a file"
    got = f"; {len(plan.lacking)} processes get it from rank {plan.source}" if plan.lacking else ""
    return f"the training continues at step {plan.step}, from {where}{got}"


def _check(*, step: int, epoch: int, every: int, things: Mapping[str, Stateful]) -> None:
    if not things:
        raise ValueError("keep was given nothing to keep: keep(model=model, optimizer=optimizer)")
    for name, value, least in (("step", step, 0), ("epoch", epoch, 0), ("every", every, 1)):
        check_whole(name, value, least)
