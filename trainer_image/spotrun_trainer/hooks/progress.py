"""A script's own word on its progress, where it does not train through `Run`."""

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
    """Tell how far the training is; all of it is optional, and once is enough.

    step            so many steps are done: further ones are counted from there
    total_steps     so many there are in all
    samples         so many samples were trained on by all processes together
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
    """Tell values of a step, such as `report(step=100, val_loss=0.31)`, where there is no `Run`.

    They are in the status of the TrainingJob, and a search compares trials by them. Values that are
    told again for a step that is done again count once. For all else it is as `progress`.
    """
    progress(step=step, metrics=values)


def check_whole(name: str, value: object, least: int = 0) -> None:
    """Raise ValueError for what is no whole number, or a smaller one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r}: give a whole number from {least} on")
