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
    _check("step", step)
    _check("total_steps", total_steps)
    _check("samples", samples)
    values = {**(metrics or {}), **({} if loss is None else {"loss": loss})}

    def tell(reports: Reports) -> None:
        if step is not None:
            reports.counter.is_at(step, perf_counter_ns())
        facts = {"total": total_steps, "samples": samples}
        reports.take_values(values)
        reports.tell(**{name: fact for name, fact in facts.items() if fact is not None})

    if not WATCH.is_off:
        WATCH.guarded(tell)


def _check(name: str, value: object) -> None:
    is_whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if value is not None and not is_whole:
        raise ValueError(f"{name}={value!r}: give a whole number from 0 on")
