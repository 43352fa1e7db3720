"""A script's own reports of its progress, where it does not train through `Run`."""

from collections.abc import Mapping
from time import perf_counter_ns
from typing import SupportsFloat

from spotrun_trainer.hooks.reports import Reports
from spotrun_trainer.hooks.watches import WATCH


def progress(
    *,
    step: int | None = None,
    total_steps: int | None = None,
    samples: int | None = None,
    loss: SupportsFloat | None = None,
    metrics: Mapping[str, SupportsFloat] | None = None,
) -> None:
    """Report how far the training is; all arguments are optional, and one call is enough.

    step            the number of steps that are done: further ones are counted from there
    total_steps     the number of all steps
    samples         the number of samples that all processes together have trained on
    loss, metrics   the newest values, as numbers or tensors of one; these are fetched from their
                    device at most twice a second

    Outside of a TrainingJob, under `Run`, and in processes that are not the first of their worker
    it does nothing, so a script may call it everywhere.
    """
    for name, value in (("step", step), ("total_steps", total_steps), ("samples", samples)):
        if value is not None:
            check_whole(name, value)
    values = {**(metrics or {}), **({} if loss is None else {"loss": loss})}

    def tell(reports: Reports) -> None:
        if step is not None:
            reports.counter.is_at(step, perf_counter_ns())
        facts = {"total": total_steps, "samples": samples}
        reports.take_values(values)
        reports.tell(**{name: fact for name, fact in facts.items() if fact is not None})

    if not WATCH.is_off:
        WATCH.guarded(tell)


def report(*, step: int, **values: SupportsFloat) -> None:
    """Report values of a step, such as `report(step=100, val_loss=0.31)`, where there is no `Run`.

    They are in the status of the TrainingJob, and a search compares trials by them. Values that are
    reported again for a repeated step count once. In all else it works like `progress`.
    """
    progress(step=step, metrics=values)


def check_whole(name: str, value: object, least: int = 0) -> None:
    """Raise ValueError for a value that is not a whole number, or is below `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r}: give a whole number from {least} on")
