"""What agents and operator say to each other, and what a worker's last words are.

Standard library only: the trainer image carries this file and nothing else of the operator. An
agent may be older or newer than the operator, so readers ignore what they do not know; what they do
know is checked and bounded, for a report comes from a user's pod and ends up in decisions and sums.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

WIRE = 1
"""The version written by this side."""
OLDEST_SERVED = 1
"""The last three versions are served; there is one so far."""

REPORT_BYTES = 16_384
LAST_WORDS_BYTES = 3_500  # the kubelet cuts termination messages at 4,096 bytes
MESSAGE_CHARACTERS = 1_024
MOST_SUSPECTS = 8
MOST_EXIT_CODE = 255
MOST_STEPS = 2**53  # what JSON readers in every language keep exact
_CHECKPOINT = re.compile(r"step-\d{1,16}\.g\d{1,10}")


class OldWireError(ValueError):
    """A report in a version that is no longer served."""


class How(StrEnum):
    """How a worker enters a world."""

    BOUNDARY = "Boundary"  # together, at a step that all agree on
    ABORT = "Abort"  # survivors drop the broken group and go on in process
    RESTART = "Restart"  # torchrun restarts the processes from the acknowledged checkpoint


class Ending(StrEnum):
    """Why a worker says it ended."""

    COMPLETED = "completed"
    DEPARTED = "departed"
    PREEMPTED = "preempted"
    FAILED = "failed"


@dataclass(frozen=True)
class Failure:
    """A training process ended with an error in some generation."""

    generation: int
    exit_code: int
    message: str


@dataclass(frozen=True)
class Utilization:
    """Shares between 0 and 1; None where it was not measured."""

    gpu: float | None = None
    cpu: float | None = None
    memory: float | None = None


@dataclass(frozen=True)
class Progress:
    """How far the training is, as the trainer says."""

    generation: int
    step: int
    total: int | None = None
    samples: int = 0
    step_seconds: float | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is durable: its name carries step and generation."""

    name: str
    step: int


@dataclass(frozen=True)
class Report:
    """What an agent says of its worker."""

    wire: int = WIRE
    ready: bool = False  # could enter a world now: warm, or waiting in rendezvous
    arrived: int = 0  # the generation it trains in
    failed: Failure | None = None
    suspects: tuple[int, ...] = ()  # places among its world's workers whose heartbeats stopped
    store_port: int | None = None  # its spare store, not used by any world yet
    utilization: Utilization = Utilization()
    progress: Progress | None = None
    committed: Checkpoint | None = None
    completed: bool = False  # the training is complete and its last checkpoint durable
    in_process: bool = False  # its trainer can change worlds without a restart

    @property
    def news(self) -> tuple[object, ...]:
        """What the operator acts upon: told at once, and looked at at once."""
        return (
            self.ready,
            self.arrived,
            self.failed,
            self.suspects,
            self.store_port,
            self.committed,
            self.completed,
            self.in_process,
        )


@dataclass(frozen=True)
class World:
    """A worker's place in a world."""

    generation: int
    rank: int  # of the worker's first process
    size: int  # processes in all
    processes: int  # of this worker
    store: str | None  # host:port; None until rank 0 has reported a spare one
    secret: str
    neighbours: tuple[str, ...]  # host names of the ring neighbours to exchange heartbeats with
    how: How
    switch: bool  # False: get ready, the others still train
    restore: (
        str | None
    )  # the checkpoint to start from; None: state comes from the others, or there is none


@dataclass(frozen=True)
class Orders:
    """What the worker is asked to do beside training; each number only grows."""

    checkpoint: int = 0


@dataclass(frozen=True)
class Answer:
    """What a worker is told."""

    version: str
    phase: str
    world: World | None = None
    orders: Orders = field(default_factory=Orders)
    stop_at: float | None = None  # seconds since the epoch
    acknowledged: str | None = None  # the checkpoint that a world would begin with now
    wire: int = WIRE


@dataclass(frozen=True)
class LastWords:
    """The line that a worker leaves in its termination log."""

    reason: Ending
    step: int | None = None
    checkpoint: str | None = None
    exit_code: int | None = None
    message: str = ""


def step_of(checkpoint: str) -> int:
    """The step that a checkpoint of this name holds."""
    return int(checkpoint.removeprefix("step-").partition(".")[0])


def read_report(body: bytes) -> Report:
    """Read what an agent sent; raises ValueError with what is wrong about it."""
    if len(body) > REPORT_BYTES:
        raise ValueError(f"a report has at most {REPORT_BYTES} bytes, this one {len(body)}")
    content = _object(_json(body), "the report")
    wire = _whole(content, "wire", most=1_000_000, default=0)
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
        arrived=_whole(content, "arrived", default=0),
        failed=_failure(content.get("failed")),
        suspects=tuple(_whole({"suspects": rank}, "suspects", most=1_000_000) for rank in suspects),
        store_port=_whole(content, "storePort", most=65_535) if content.get("storePort") else None,
        utilization=_utilization(content.get("utilization")),
        progress=_progress(content.get("progress")),
        committed=_checkpoint(content.get("committed")),
        completed=content.get("completed") is True,
        in_process=content.get("inProcess") is True,
    )


def write_report(report: Report) -> bytes:
    """What an agent sends; what it does not know is absent."""
    failed, progress, used = report.failed, report.progress, report.utilization
    content = {
        "wire": report.wire,
        "ready": report.ready,
        "arrived": report.arrived,
        "failed": failed and _present(failed, exit_code="exitCode"),
        "suspects": list(report.suspects[:MOST_SUSPECTS]) or None,
        "storePort": report.store_port,
        "utilization": _present(used) or None,
        "progress": progress and _present(progress, step_seconds="stepSeconds"),
        "committed": report.committed and {"checkpoint": report.committed.name},
        "completed": report.completed,
        "inProcess": report.in_process,
    }
    known = {key: value for key, value in content.items() if value is not None}
    return json.dumps(known, separators=(",", ":")).encode()


def write_answer(answer: Answer) -> bytes:
    """What goes to the agent; `world` is absent where there is none."""
    content: dict[str, Any] = {
        "wire": answer.wire,
        "version": answer.version,
        "phase": answer.phase,
        "orders": {"checkpoint": answer.orders.checkpoint},
    }
    if answer.stop_at is not None:
        content["stopAt"] = answer.stop_at
    if answer.acknowledged is not None:
        content["acknowledged"] = answer.acknowledged
    if answer.world is not None:
        content["world"] = {**answer.world.__dict__, "how": answer.world.how.value}
    return json.dumps(content, separators=(",", ":")).encode()


def read_answer(body: bytes) -> Answer:
    """Read what the operator answered; raises ValueError if it is not an answer."""
    content = _object(_json(body), "the answer")
    world = content.get("world")
    stop_at = content.get("stopAt")
    orders = _object(content.get("orders", {}), "orders")
    return Answer(
        version=_string(content, "version"),
        phase=_string(content, "phase"),
        world=None if world is None else _world(_object(world, "world")),
        orders=Orders(checkpoint=_whole(orders, "checkpoint", default=0)),
        stop_at=None if stop_at is None else _number(content, "stopAt", float(MOST_STEPS)),
        acknowledged=_checkpoint_name(content.get("acknowledged")),
        wire=_whole(content, "wire"),
    )


def write_last_words(words: LastWords) -> str:
    """One line that fits, whatever the message: the reason must survive the kubelet's cut."""
    code, step, name = words.exit_code, words.step, words.checkpoint
    is_code = code is not None and 0 <= code <= MOST_EXIT_CODE
    content = {
        "reason": words.reason.value,
        "step": step if step is not None and 0 <= step <= MOST_STEPS else None,
        "checkpoint": name if name is not None and _CHECKPOINT.fullmatch(name) else None,
        "exitCode": code if is_code else None,
    }
    known = {key: value for key, value in content.items() if value is not None}
    message = _one_line(words.message)
    line = json.dumps(known | ({"message": message} if message else {}))
    while len(line) > LAST_WORDS_BYTES:  # characters outside ASCII take up to 12 bytes
        message = message[: len(message) // 2]
        line = json.dumps({**known, "message": message})
    return line


def read_last_words(text: str) -> LastWords | None:
    """The last line that is such a line; None if a worker ended without a word of ours."""
    for line in reversed(text[-4096:].splitlines()):
        try:
            content = _object(_json(line.encode()), "last words")
            return LastWords(
                reason=Ending(content.get("reason", "")),
                step=_whole(content, "step") if "step" in content else None,
                checkpoint=_checkpoint_name(content.get("checkpoint")),
                exit_code=_whole(content, "exitCode", most=MOST_EXIT_CODE)
                if "exitCode" in content
                else None,
                message=_message(content),
            )
        except ValueError:
            continue
    return None


def _json(body: bytes) -> Any:  # noqa: ANN401 - it is JSON
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"this is not JSON: {error}") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not a JSON object")  # noqa: TRY004 - a sender's mistake, not ours
    return value


def _whole(
    content: Mapping[str, Any], key: str, *, most: int = MOST_STEPS, default: int | None = None
) -> int:
    value = content.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{key} is a whole number from 0 to {most}, not {_shown(value)}")
    return value


def _number(content: Mapping[str, Any], key: str, most: float) -> float | None:
    value = content.get(key)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= most:  # which NaN is not, either
        raise ValueError(f"{key} is a number from 0 to {most:g}, not {_shown(value)}")
    return float(value)


def _string(content: Mapping[str, Any], key: str) -> str:
    value = content.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key} is a text, not {_shown(value)}")  # noqa: TRY004
    return value


def _message(content: Mapping[str, Any]) -> str:
    value = content.get("message", "")
    return _one_line(value) if isinstance(value, str) else ""


def _one_line(text: str) -> str:
    """Bounded, and without what would break a line, a terminal or an encoding."""
    bounded = text[:MESSAGE_CHARACTERS]
    return "".join(char if char.isprintable() else " " for char in bounded).strip()


def _shown(value: object) -> str:
    """A value in an error's words; what is nested is not, for it may be nested very deep."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return repr(str(value)[:40])


def _present(part: object, **renamed: str) -> dict[str, Any]:
    fields = vars(part).items()
    return {renamed.get(key, key): value for key, value in fields if value is not None}


def _failure(value: object) -> Failure | None:
    if value is None:
        return None
    content = _object(value, "failed")
    return Failure(
        generation=_whole(content, "generation"),
        exit_code=_whole(content, "exitCode", most=MOST_EXIT_CODE),
        message=_message(content),
    )


def _utilization(value: object) -> Utilization:
    content = {} if value is None else _object(value, "utilization")
    return Utilization(*(_number(content, name, 1.0) for name in ("gpu", "cpu", "memory")))


def _progress(value: object) -> Progress | None:
    if value is None:
        return None
    content = _object(value, "progress")
    return Progress(
        generation=_whole(content, "generation", default=0),
        step=_whole(content, "step"),
        total=_whole(content, "total") if content.get("total") is not None else None,
        samples=_whole(content, "samples", default=0),
        step_seconds=_number(content, "stepSeconds", 86_400.0),
    )


def _checkpoint(value: object) -> Checkpoint | None:
    if value is None:
        return None
    content = _object(value, "committed")
    name = _checkpoint_name(content.get("checkpoint"))
    if name is None:
        raise ValueError("committed names a checkpoint")
    return Checkpoint(name=name, step=step_of(name))


def _checkpoint_name(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _CHECKPOINT.fullmatch(value):
        raise ValueError(f"a checkpoint is called step-N.gG, not {_shown(value)}")
    return value


def _world(content: Mapping[str, Any]) -> World:
    neighbours = content.get("neighbours", [])
    if not isinstance(neighbours, list):
        raise ValueError(f"neighbours is a list, not {_shown(neighbours)}")  # noqa: TRY004
    return World(
        generation=_whole(content, "generation"),
        rank=_whole(content, "rank"),
        size=_whole(content, "size"),
        processes=_whole(content, "processes"),
        store=None if content.get("store") is None else _string(content, "store"),
        secret=_string(content, "secret"),
        neighbours=tuple(_string({"neighbours": one}, "neighbours") for one in neighbours),
        how=How(_string(content, "how")),
        switch=content.get("switch") is True,
        restore=_checkpoint_name(content.get("restore")),
    )
