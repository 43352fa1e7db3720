"""The progress of a training, in the report of an agent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spotrun.wire.metrics import Metric, metrics_content, read_metrics
from spotrun.wire.old_names import with_old_name, world_number
from spotrun.wire.reading import checkpoint_name, number, object_of, one_line, whole
from spotrun.wire.store_use import StoreUse, read_store_use, store_use_content

MOST_FAILURE_CHARACTERS = 512  # of why saves fail
MOST_SPEED = 1e21  # operations or bytes a second
_MOST_SECONDS = 1e9  # thirty years


@dataclass(frozen=True)
class Progress:
    """The progress of the training, as the trainer counts it."""

    world_number: int
    step: int
    total: int | None = None
    samples: int = 0
    step_seconds: float | None = None
    signs: int = 0  # of life beside steps: grows while the trainer evaluates
    # Shares of a step, whose sum is 1: all time without waiting for data or others is computing.
    compute: float | None = None
    data: float | None = None
    communicate: float | None = None
    microbatches: int | None = None  # of a step, of all workers together
    # Of gradients that are summed in a step; if compressed, of an all-reduce that sends as much.
    sync_bytes: int | None = None
    epoch_samples: int | None = None  # in an epoch, if the dataset says it
    # Measured before the first step, if the script asks for it.
    flops: float | None = None  # of the worker's slowest device, a second
    link_bytes: float | None = None  # of the worker's network, a second
    checkpoint_seconds: float | None = None  # of this world, in which saves delayed steps
    metrics: tuple[Metric, ...] = ()  # the newest values of the script's metrics
    # The checkpoint it continued from, if its world named none or the local tier had a newer step.
    restored: str | None = None
    store: StoreUse | None = None  # None: checkpoints are in no object store
    kept: str | None = None  # the newest step that the local tier has whole, with its copies
    save_seconds: float | None = None  # of training, which the last save has cost
    save_failure: str | None = None  # why saves fail since the last one that succeeded


def read_progress(value: object) -> Progress | None:
    """Read the progress in a report; None if it has none."""
    if value is None:
        return None
    content = object_of(value, "progress")
    return Progress(
        world_number=world_number(content, "worldNumber", default=0),
        step=whole(content, "step"),
        total=_optional(content, "total"),
        samples=whole(content, "samples", default=0),
        step_seconds=number(content, "stepSeconds", 86_400.0),
        signs=whole(content, "signs", default=0),
        compute=number(content, "compute", 1.0),
        data=number(content, "data", 1.0),
        communicate=number(content, "communicate", 1.0),
        microbatches=_optional(content, "microbatches"),
        sync_bytes=_optional(content, "syncBytes"),
        epoch_samples=_optional(content, "epochSamples"),
        flops=number(content, "flops", MOST_SPEED),
        link_bytes=number(content, "linkBytes", MOST_SPEED),
        checkpoint_seconds=number(content, "checkpointSeconds", _MOST_SECONDS),
        metrics=read_metrics(content),
        restored=checkpoint_name(content.get("restored")),
        kept=checkpoint_name(content.get("kept")),
        store=read_store_use(content.get("store")),
        save_seconds=number(content, "saveSeconds", 86_400.0),
        save_failure=_save_failure(content.get("saveFailure")),
    )


def _save_failure(value: object) -> str | None:
    return one_line(value)[:MOST_FAILURE_CHARACTERS] or None if isinstance(value, str) else None


def _optional(content: Mapping[str, Any], key: str) -> int | None:
    return whole(content, key) if content.get(key) is not None else None


def progress_content(progress: Progress) -> dict[str, Any]:
    """Return the progress as a report contains it; unknown fields are absent."""
    content = present(
        progress,
        world_number="worldNumber",
        step_seconds="stepSeconds",
        sync_bytes="syncBytes",
        epoch_samples="epochSamples",
        link_bytes="linkBytes",
        checkpoint_seconds="checkpointSeconds",
        save_seconds="saveSeconds",
        save_failure="saveFailure",
    )
    del content["metrics"]
    content = {**with_old_name(content, "worldNumber"), **metrics_content(progress.metrics)}
    if progress.store is not None:
        content["store"] = store_use_content(progress.store)
    return content


def present(part: object, **renamed: str) -> dict[str, Any]:
    """Return the fields that are known, some of them under another name."""
    fields = vars(part).items()
    return {renamed.get(key, key): value for key, value in fields if value is not None}
