"""An agent's report of its worker."""

import json
from dataclasses import dataclass, replace
from typing import Any

from spotrun.wire.device_words import WRONG_DEVICE, is_of_device
from spotrun.wire.old_names import with_old_name, world_number
from spotrun.wire.progress import Progress, present, progress_content, read_progress
from spotrun.wire.reading import (
    as_object,
    checkpoint_name,
    message,
    number,
    object_of,
    one_line,
    whole,
)
from spotrun.wire.version import OLDEST_SERVED, WIRE, OldWireError

REPORT_BYTES = 16_384
MOST_SUSPECTS = 8
MOST_EXIT_CODE = 255
MOST_LOW_CLOCK_CHARACTERS = 256


@dataclass(frozen=True)
class Failure:
    """A training process ended with an error in some world."""

    world_number: int
    exit_code: int
    message: str
    follows: bool = False  # it failed because a peer ended or was silent: the cause is there

    @property
    def is_of_device(self) -> bool:
        """Whether it failed because of its device."""
        return is_of_device(self.message)

    @property
    def is_of_wrong_numbers(self) -> bool:
        """Whether its device computed wrong numbers, which others may have got."""
        return WRONG_DEVICE in self.message


@dataclass(frozen=True)
class Utilization:
    """Shares between 0 and 1; None if not measured."""

    gpu: float | None = None
    cpu: float | None = None
    memory: float | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is durable: its name carries step and world number."""

    name: str
    step: int
    # The number of orders to save before this save began; None: the sender does not say.
    orders: int | None = None


@dataclass(frozen=True)
class Report:
    """An agent's report of its worker."""

    wire: int = WIRE
    ready: bool = False  # it could enter a world now: warm, or waiting in rendezvous
    arrived: int = 0  # the world in which it trains
    failed: Failure | None = None
    suspects: tuple[int, ...] = ()  # places among its world's workers whose heartbeats stopped
    store_port: int | None = None  # its spare store, not used by any world yet
    utilization: Utilization = Utilization()
    progress: Progress | None = None
    committed: Checkpoint | None = None
    completed: bool = False  # the training is complete and its last checkpoint durable
    in_process: bool = False  # its trainer can change worlds without a restart
    needs_boundary: bool = False  # but not after its world has broken, as over NCCL
    leaving: bool = False  # a signal told it to end, and it is ending
    broken: int = 0  # the world whose group broke under its trainer, which waits for the next
    # Whether its trainer saves when a checkpoint is ordered; None: an older agent does not say.
    saves_on_order: bool | None = None
    low_clock: str | None = None  # the GPU whose clock is low, and why

    @property
    def can_be_asked_to_save(self) -> bool:
        """Whether a checkpoint can be ordered and awaited.

        Older agents do not say so. But if they report steps or checkpoints, these come from `Run`.
        """
        if self.saves_on_order is not None:
            return self.saves_on_order
        return self.in_process or self.progress is not None or self.committed is not None

    @property
    def outlives_a_break(self) -> bool:
        """Whether its process continues after its world has broken."""
        return self.in_process and not self.needs_boundary

    @property
    def news(self) -> tuple[object, ...]:
        """The fields that the operator acts upon: a change is sent and handled at once."""
        return (
            self.ready,
            self.arrived,
            self.failed,
            self.suspects,
            self.store_port,
            self.committed,
            self.completed,
            self.in_process,
            self.needs_boundary,
            self.leaving,
            self.broken,
            self.saves_on_order,
            self.progress.save_failure if self.progress is not None else None,
        )


def step_of(checkpoint: str) -> int:
    """Return the step that a checkpoint of this name holds."""
    return int(checkpoint.removeprefix("step-").partition(".")[0])


def read_report(body: bytes) -> Report:
    """Read an agent's report; raises ValueError that says what is wrong with it."""
    if len(body) > REPORT_BYTES:
        raise ValueError(f"a report has at most {REPORT_BYTES} bytes, this one {len(body)}")
    content = as_object(body, "the report")
    wire = whole(content, "wire", most=1_000_000, default=0)
    if wire < OLDEST_SERVED:
        raise OldWireError(
            f"wire version {wire} is no longer served: use an image with a newer agent"
        )
    suspects = content.get("suspects") or []
    if not isinstance(suspects, list) or len(suspects) > MOST_SUSPECTS:
        raise ValueError(f"suspects is a list of at most {MOST_SUSPECTS} ranks")
    return Report(
        wire=wire,
        ready=content.get("ready") is True,
        arrived=whole(content, "arrived", default=0),
        failed=_failure(content.get("failed")),
        suspects=tuple(whole({"suspects": rank}, "suspects", most=1_000_000) for rank in suspects),
        store_port=whole(content, "storePort", most=65_535) if content.get("storePort") else None,
        utilization=_utilization(content.get("utilization")),
        progress=read_progress(content.get("progress")),
        committed=_checkpoint(content.get("committed")),
        completed=content.get("completed") is True,
        in_process=content.get("inProcess") is True,
        needs_boundary=content.get("needsBoundary") is True,
        leaving=content.get("leaving") is True,
        broken=whole(content, "broken", default=0),
        saves_on_order=_flag(content.get("savesOnOrder")),
        low_clock=_low_clock(content.get("lowClock")),
    )


def write_report(report: Report) -> bytes:
    """Write an agent's report without unknown fields, and without metrics if it would be too long.

    If the operator refused reports as too long, it would learn nothing about the worker.
    """
    body = _written(report)
    if len(body) > REPORT_BYTES and report.progress is not None:
        body = _written(replace(report, progress=replace(report.progress, metrics=())))
    return body


def _written(report: Report) -> bytes:
    failed, progress, used = report.failed, report.progress, report.utilization
    content = {
        "wire": report.wire,
        "ready": report.ready,
        "arrived": report.arrived,
        "failed": failed and _written_failure(failed),
        "suspects": list(report.suspects[:MOST_SUSPECTS]) or None,
        "storePort": report.store_port,
        "utilization": present(used) or None,
        "progress": progress and progress_content(progress),
        "committed": report.committed and _written_checkpoint(report.committed),
        "completed": report.completed,
        "inProcess": report.in_process,
        "needsBoundary": report.needs_boundary or None,
        "leaving": report.leaving,
        "broken": report.broken or None,
        "savesOnOrder": report.saves_on_order,
        "lowClock": report.low_clock,
    }
    known = {key: value for key, value in content.items() if value is not None}
    return json.dumps(known, separators=(",", ":")).encode()


def _written_failure(failure: Failure) -> dict[str, Any]:
    content = present(failure, world_number="worldNumber", exit_code="exitCode")
    return with_old_name(content, "worldNumber")


def _written_checkpoint(saved: Checkpoint) -> dict[str, Any]:
    content: dict[str, Any] = {"checkpoint": saved.name}
    return content if saved.orders is None else {**content, "orders": saved.orders}


def _low_clock(value: object) -> str | None:
    return one_line(value)[:MOST_LOW_CLOCK_CHARACTERS] or None if isinstance(value, str) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _failure(value: object) -> Failure | None:
    if value is None:
        return None
    content = object_of(value, "failed")
    return Failure(
        world_number=world_number(content, "worldNumber"),
        exit_code=whole(content, "exitCode", most=MOST_EXIT_CODE),
        message=message(content),
        follows=content.get("follows") is True,
    )


def _utilization(value: object) -> Utilization:
    content = {} if value is None else object_of(value, "utilization")
    return Utilization(*(number(content, name, 1.0) for name in ("gpu", "cpu", "memory")))


def _checkpoint(value: object) -> Checkpoint | None:
    if value is None:
        return None
    content = object_of(value, "committed")
    name = checkpoint_name(content.get("checkpoint"))
    if name is None:
        raise ValueError("committed names a checkpoint")
    orders = whole(content, "orders") if content.get("orders") is not None else None
    return Checkpoint(name=name, step=step_of(name), orders=orders)
