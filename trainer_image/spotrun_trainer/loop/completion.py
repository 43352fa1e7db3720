"""The end of a process's training: complete with a durable last checkpoint, or ended early."""

import time
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.optim import Optimizer

from spotrun_trainer.checkpoint import CheckpointError
from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.loop import state_sync
from spotrun_trainer.loop.saving.saving import FINISH_SECONDS, MARGIN_SECONDS, Saving
from spotrun_trainer.step import loss_guard
from spotrun_trainer.step.loss_guard import NotFiniteError
from spotrun_trainer.telemetry.console import say

_LOOK_SECONDS = 0.1
AGAIN_SECONDS = 5.0


def complete(context: Context, saving: Saving, extra: Callable[[], dict[str, Any]]) -> None:
    """Save the last state of a training until it is durable, and report that it is complete."""
    if not are_weights_finite(context):
        finish_in_time(context, saving)  # of an earlier step, from which the next start continues
        raise NotFiniteError(
            "the weights are not finite, so nothing is saved: continue from the last checkpoint "
            "with clip= or a lower learning rate"
        )
    until, again_at, is_durable = time.monotonic() + FINISH_SECONDS, 0.0, False
    while not is_durable:
        try:
            if time.monotonic() >= again_at:
                saving.begin(extra())
                is_durable = saving.finish(_LOOK_SECONDS)
        except CheckpointError as error:  # a full disk may be enlarged, or a server may come back
            say("the trainer tries to save the last checkpoint again")
            saving.failed(error)
            again_at = time.monotonic() + AGAIN_SECONDS
        context.reporter.sign()  # there are no more steps, but this is not a hang
        context.check_world()  # a lost process will not write its part
        if not is_durable and time.monotonic() > until:
            raise TimeoutError(
                "the training is complete, but its last checkpoint was not durable after "
                f"{FINISH_SECONDS:.0f} s; start it again, and it continues from the checkpoint "
                "before"
            )
        time.sleep(0.0 if is_durable or time.monotonic() >= again_at else _LOOK_SECONDS)
    if context.group.rank == 0:
        saving.count_stored()  # the remaining checkpoints continue to cost money
    saving.is_complete = True
    context.console_log.flush(is_last=True)  # so that the last report contains the last values
    context.reporter.update(step=context.step, completed=True)


def leave(context: Context, saving: Saving, why: str) -> NoReturn:
    """End this process before the training is complete; first finish a save in flight."""
    finish_in_time(context, saving)
    context.leave(f"{why}; {saving.what_is_durable()}")


def finish_in_time(context: Context, saving: Saving) -> None:
    """Wait for the save in flight while there is time."""
    interrupt = context.interrupt
    seconds = min(interrupt.seconds_left(), interrupt.grace_seconds) - MARGIN_SECONDS
    try:
        saving.finish(seconds)
    except CheckpointError as error:  # earlier checkpoints stay durable
        say(str(error))


def are_weights_finite(context: Context) -> bool:
    """Whether the weights are finite, with the same answer in all processes; logged if not."""
    optimizers = [one for one in context.things if isinstance(one, Optimizer)]
    are_finite = loss_guard.are_finite(state_sync.weights_of(optimizers))
    if context.rank_info.shards > 1:  # the other processes hold other parts of the weights
        flag = torch.tensor([float(not are_finite)], dtype=torch.float64, device=context.device)
        are_finite = context.group.total(flag) == [0]
    if not are_finite and context.group.rank == 0:
        say(f"step {context.step} is not saved: the weights are not finite")
    return are_finite
