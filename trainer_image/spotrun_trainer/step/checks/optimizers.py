"""Checks of the optimizers that a step updates: all have the same, tracked parameters."""

from collections.abc import Sequence

from torch.optim import Optimizer

from spotrun_trainer.parallel.local import local
from spotrun_trainer.state.optimizer_parameters import parameters_of
from spotrun_trainer.step.step_context import StepContext


def check_tracked(
    context: StepContext, optimizers: Sequence[Optimizer], used: Sequence[object]
) -> None:
    """Raise ValueError, in the first step, for objects that would be missing in checkpoints."""
    if not context.has_addresses or all(id(one) in context.checked for one in (*optimizers, *used)):
        return
    known = {id(one) for one in context.things}
    for one in used:
        if id(one) not in known:
            raise ValueError(
                f"step.update got a {type(one).__name__} that is not tracked, so a worker that "
                "joins would continue with another state of it: give it to run.track(...) before "
                "run.steps(...)"
            )
    tracked = {tensor.data_ptr() for tensor in context.tracked.flatten().tensors.values()}
    for parameter in (one for optimizer in optimizers for one in parameters_of(optimizer)):
        if local(parameter).data_ptr() not in tracked:
            raise ValueError(
                f"an optimizer updates a parameter of shape {tuple(parameter.shape)} of a "
                "module that is not tracked, so a worker that joins would continue with another "
                "value: give the module to run.track(...) before run.steps(...)"
            )
    context.checked |= {id(one) for one in (*optimizers, *used)}


def check_unfrozen(context: StepContext, optimizers: Sequence[Optimizer]) -> None:
    """Raise ValueError if one would apply a gradient that only this process has."""
    for optimizer in optimizers:
        with_gradient = [one for one in parameters_of(optimizer) if one.grad is not None]
        summed = {id(one) for one in context.gradients(optimizer).parameters}
        for parameter in with_gradient:
            if id(parameter) not in summed:
                raise ValueError(
                    f"a parameter of shape {tuple(parameter.shape)} was unfrozen, or given to "
                    "its optimizer, within the step, so its gradient is not summed over the "
                    "processes: freeze, unfreeze and add parameters before `with step:`"
                )


def check_inner(context: StepContext, optimizer: Optimizer) -> None:
    """Raise ValueError if a process cannot update by itself."""
    if context.batch.may_shrink:
        raise ValueError(
            "step.inner_update uses a microbatch as the batch of an inner step, and "
            'microbatch="auto" would change that with the number of processes: give a number'
        )
    if context.deterministic or context.scaler is not None or context.group.replica is not None:
        raise ValueError(
            "step.inner_update needs a whole copy of the model in each process, no "
            "deterministic=True, because its result depends on the number of processes, and no "
            "GradScaler: leave these out"
        )
    owned = {id(one) for known in context.optimizers for one in parameters_of(known)}
    if not owned.issuperset(map(id, parameters_of(optimizer))):
        raise ValueError(
            "step.inner_update got an optimizer with a parameter that no tracked optimizer has: "
            "track an outer one, such as SGD(model.parameters(), lr=0.7, momentum=0.9, "
            "nesterov=True), which step.update applies"
        )
    if any(bucket.work for one in context.all_gradients() for bucket in one.buckets):
        raise ValueError(
            "step.inner_update was called, but earlier steps did not call it, so the gradients "
            "are already being sent: call it after each step.backward, in all steps"
        )
