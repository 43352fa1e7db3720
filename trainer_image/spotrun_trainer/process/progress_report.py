"""The report of a training process to its worker's agent: the content of `progress.json`.

Any program may have written the file, so each value is checked as it is read. Standard library
only: this is imported before torch is.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args

from spotrun import wire

FILE_BYTES = 65_536
"""The largest file that is read: it contains no certificates, and tracebacks are cut."""
_FAILURE_CHARACTERS = 4_096
_MOST_PROCESSES = 1_024  # of a worker; each has a file to check
_CHECKPOINT = re.compile(r"step-\d{1,16}\.g\d{1,10}")

Exiting = Literal["departed", "preempted"]
_EXITS: Sequence[object] = get_args(Exiting)


@dataclass(frozen=True)
class TrainerProgress:
    """A trainer's report of itself; in the file its names are in camel case, like the wire's."""

    world_number: int = 0  # the world that it trains in, with the state; 0: none yet
    entering: int = 0  # the newest world that it began to join, which it can do once only
    ready: bool = False  # warm: it could enter a world now without a restart
    in_process: bool = False  # it can change worlds without a restart
    saves_on_order: bool = False  # it saves when `orders.checkpoint` in world.json has grown
    needs_boundary: bool = False  # in process only between steps, not after its world has broken
    broken: int = 0  # the world whose group broke under it: it waits for the next world
    step: int = 0
    total: int | None = None
    samples: int = 0
    step_seconds: float | None = None
    signs: int = 0  # signs of life outside steps: grows while it evaluates
    compute: float | None = None  # shares of the last steps, whose sum is 1
    data: float | None = None
    communicate: float | None = None
    microbatches: int | None = None  # of a step, of all processes together
    # Of gradients that processes sum in a step; if compressed, of an all-reduce that sends as much.
    sync_bytes: int | None = None
    epoch_samples: int | None = None  # in an epoch, where the dataset says
    flops: float | None = None  # of the worker's slowest device, before the first step
    link_bytes: float | None = None  # a second, of its network, before the first step
    checkpoint_seconds: float | None = None  # of this world, in which saves delayed steps
    metrics: tuple[wire.Metric, ...] = ()  # the newest values of what the script measures
    checkpoint: str | None = None  # the newest durable checkpoint, by name (step-N.gG)
    checkpoint_orders: int | None = None  # `orders.checkpoint` when it was begun
    kept: str | None = None  # the newest step that is complete in the local tier, by name
    restored: str | None = None  # what training continued from, if its world did not name it
    store: wire.StoreUse | None = None  # requests and bytes in this world, of this process
    save_seconds: float | None = None  # of training time that the last save cost
    save_failure: str | None = None  # why saves fail since the last one that succeeded
    completed: bool = False  # training complete and the final checkpoint durable
    utilization: wire.Utilization = field(default_factory=wire.Utilization)
    failure: str | None = None  # a cut traceback, written before the process ends
    exiting: Exiting | None = None  # it ends on purpose, which is not a failure
    processes: int = 1  # of this worker that report, each in a file of its own
    left: int = field(default=0, compare=False)  # computed: the newest that all have left


def of_worker(first: TrainerProgress, others: Sequence[TrainerProgress]) -> TrainerProgress:
    """Combine the reports of a worker's processes: the worker is as far as the last of them."""
    every = (first, *others)
    return replace(
        first,
        world_number=min(one.world_number for one in every),
        entering=min(one.entering for one in every),
        ready=all(one.ready for one in every),
        in_process=all(one.in_process for one in every),
        broken=max(one.broken for one in every),
        left=min(one.broken for one in every),
        store=_store_use(first, others),
        save_failure=next((one.save_failure for one in every if one.save_failure), None),
    )


def _store_use(first: TrainerProgress, others: Sequence[TrainerProgress]) -> wire.StoreUse | None:
    """Add up what the processes did in the world of the first."""
    use = first.store
    for one in others:
        if use is not None and one.store is not None and one.world_number == first.world_number:
            use = use.plus(one.store)
    return use


def progress_content(progress: TrainerProgress) -> bytes:
    """Return the content of a report's file; default values are left out."""
    defaults = vars(TrainerProgress())
    changed = {name: value for name, value in vars(progress).items() if value != defaults[name]}
    metrics = wire.metrics_content(changed.pop("metrics", ()))
    content = {_camel(name): _plain(value) for name, value in changed.items()} | metrics
    return json.dumps(content, separators=(",", ":")).encode()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _plain(value: object) -> object:
    if isinstance(value, wire.Utilization):
        return {name: share for name, share in vars(value).items() if share is not None}
    if isinstance(value, wire.StoreUse):
        return wire.store_use_content(value)
    return value


def parse_progress(body: bytes) -> TrainerProgress:
    """Read a report; raises ValueError that says what is wrong with it."""
    if len(body) > FILE_BYTES:
        raise ValueError(f"it has more than {FILE_BYTES} bytes")
    content = json.loads(body)
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - a sender's mistake, not ours
    return TrainerProgress(
        world_number=_world_number(content),
        entering=_whole(content, "entering"),
        ready=_flag(content, "ready"),
        in_process=_flag(content, "inProcess"),
        saves_on_order=_flag(content, "savesOnOrder"),
        needs_boundary=_flag(content, "needsBoundary"),
        broken=_whole(content, "broken"),
        step=_whole(content, "step"),
        total=_optional(content, "total"),
        samples=_whole(content, "samples"),
        step_seconds=_number(content, "stepSeconds", most=86_400.0),
        signs=_whole(content, "signs"),
        compute=_number(content, "compute", most=1.0),
        data=_number(content, "data", most=1.0),
        communicate=_number(content, "communicate", most=1.0),
        microbatches=_optional(content, "microbatches"),
        sync_bytes=_optional(content, "syncBytes"),
        epoch_samples=_optional(content, "epochSamples"),
        flops=_number(content, "flops", most=wire.MOST_SPEED),
        link_bytes=_number(content, "linkBytes", most=wire.MOST_SPEED),
        checkpoint_seconds=_number(content, "checkpointSeconds", most=1e9),
        metrics=wire.read_metrics(content),
        checkpoint=_checkpoint(content, "checkpoint"),
        checkpoint_orders=_optional(content, "checkpointOrders"),
        kept=_checkpoint(content, "kept"),
        restored=_checkpoint(content, "restored"),
        store=wire.read_store_use(content.get("store")),
        save_seconds=_number(content, "saveSeconds", most=86_400.0),
        save_failure=_save_failure(content.get("saveFailure")),
        completed=_flag(content, "completed"),
        utilization=_utilization(content.get("utilization")),
        failure=_failure(content),
        exiting=_exiting(content.get("exiting")),
        processes=_processes(content),
    )


def _whole(content: Mapping[str, Any], key: str) -> int:
    value = content.get(key, 0)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not 0 <= value <= wire.MOST_STEPS:
        raise ValueError(f"{key} is a whole number from 0 on, not {_shown(value)}")
    return int(value)


def _world_number(content: Mapping[str, Any]) -> int:
    # Programs that were written for an earlier release report it under its old name.
    return _whole(content, "worldNumber" if "worldNumber" in content else "generation")


def _processes(content: Mapping[str, Any]) -> int:
    count = _whole({"processes": 1, **content}, "processes")
    if not 1 <= count <= _MOST_PROCESSES:
        raise ValueError(f"processes is a number from 1 to {_MOST_PROCESSES}, not {count}")
    return count


def _optional(content: Mapping[str, Any], key: str) -> int | None:
    return None if content.get(key) is None else _whole(content, key)


def _number(content: Mapping[str, Any], key: str, *, most: float) -> float | None:
    value = content.get(key)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= most:  # which excludes NaN, too
        raise ValueError(f"{key} is a number from 0 to {most:g}, not {_shown(value)}")
    return float(value)


def _flag(content: Mapping[str, Any], key: str) -> bool:
    value = content.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"{key} is true or false, not {_shown(value)}")  # noqa: TRY004
    return value


def _checkpoint(content: Mapping[str, Any], key: str) -> str | None:
    value = content.get(key)
    if value is not None and not (isinstance(value, str) and _CHECKPOINT.fullmatch(value)):
        raise ValueError(f"{key} is called step-N.gG, not {_shown(value)}")
    return value


def _failure(content: Mapping[str, Any]) -> str | None:
    value = content.get("failure")
    if value is not None and not isinstance(value, str):
        raise ValueError(f"failure is a text, not {_shown(value)}")
    return value and value[-_FAILURE_CHARACTERS:]  # the end of a traceback matters


def _save_failure(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"saveFailure is a text, not {_shown(value)}")
    return wire.one_line(value)[: wire.MOST_FAILURE_CHARACTERS] or None if value else None


def _utilization(value: object) -> wire.Utilization:
    if value is None:
        return wire.Utilization()
    if not isinstance(value, dict):
        raise ValueError(f"utilization is an object, not {_shown(value)}")  # noqa: TRY004
    return wire.Utilization(
        gpu=_number(value, "gpu", most=1.0),
        cpu=_number(value, "cpu", most=1.0),
        memory=_number(value, "memory", most=1.0),
    )


def _exiting(value: object) -> Exiting | None:
    if value is None or value in _EXITS:
        return cast("Exiting | None", value)
    raise ValueError(f"exiting is departed or preempted, not {_shown(value)}")


def _shown(value: object) -> str:
    return repr(value)[:60]
