"""The operator's answer to a worker."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spotrun.wire.old_names import with_old_name, world_number
from spotrun.wire.profile import Profile, profile_content, read_profile
from spotrun.wire.reading import (
    MOST_STEPS,
    as_object,
    checkpoint_name,
    number,
    object_of,
    one_line,
    shown,
    string,
    whole,
)
from spotrun.wire.stage import Stage, read_stage, stage_content
from spotrun.wire.text_enum import TextEnum
from spotrun.wire.version import WIRE


class How(TextEnum):
    """The way in which a worker enters a world."""

    BOUNDARY = "Boundary"  # together, at a step that all agree on
    ABORT = "Abort"  # survivors drop the broken group and continue in process
    RESTART = "Restart"  # torchrun restarts the processes from the acknowledged checkpoint


@dataclass(frozen=True)
class World:
    """A worker's place in a world."""

    number: int
    rank: int  # of the worker's first process
    size: int  # processes in all
    processes: int  # of this worker
    store: str | None  # host:port; None until rank 0 has reported a spare store
    secret: str
    neighbours: tuple[str, ...]  # host names of the ring neighbours to exchange heartbeats with
    how: How
    switch: bool  # False: get ready, the others still train
    restore: str | None
    """The checkpoint to start from; None: state comes from other workers, or there is none."""
    planned: bool = False
    """Whether no worker was lost: then the processes of the last world get more time to end."""
    stage: Stage | None = None  # None: the job has none
    trained: int = 0
    """The number of processes that made the last step of a script without `Run`; 0: unknown."""


@dataclass(frozen=True)
class Notice:
    """A notice that a node of the world goes away."""

    at: float  # seconds since the epoch
    reason: str


@dataclass(frozen=True)
class Orders:
    """Requests to the worker in addition to training; each number only grows."""

    checkpoint: int = 0
    stop: int = 0
    """The number of stages of the training that must end; without stages 1 ends the training."""
    profile: Profile | None = None  # the newest one


@dataclass(frozen=True)
class Answer:
    """The operator's answer to a worker."""

    version: str
    phase: str
    world: World | None = None
    orders: Orders = field(default_factory=Orders)
    stop_at: float | None = None  # seconds since the epoch
    acknowledged: str | None = None  # the checkpoint with which a world would begin now
    world_number: int = 0  # of the newest world, with or without this worker; 0: there was none
    left_out: bool = False
    """Whether it came too late to a world while others have the state: a process that is still in
    an older world does not count any more."""
    notice: Notice | None = None  # the earliest one of all workers
    planned: bool = True
    """Whether no worker was lost before the newest world: processes without a place in it may save.
    An older operator does not send it; then it is True, so that a planned change cannot prevent a
    save."""
    save_every: float | None = None  # seconds between saves, if the script does not set them
    keep: int | None = None  # the number of checkpoints to keep
    wire: int = WIRE


def write_answer(answer: Answer) -> bytes:
    """Write the answer to an agent; `world` is absent if there is none."""
    content: dict[str, Any] = {
        "wire": answer.wire,
        "version": answer.version,
        "phase": answer.phase,
        "orders": _orders(answer.orders),
    }
    if answer.stop_at is not None:
        content["stopAt"] = answer.stop_at
    if answer.acknowledged is not None:
        content["acknowledged"] = answer.acknowledged
    if answer.world_number:
        content = with_old_name({**content, "worldNumber": answer.world_number}, "worldNumber")
    if answer.left_out:
        content["leftOut"] = True
    if answer.notice is not None:
        content["notice"] = vars(answer.notice)
    if answer.save_every is not None:
        content["saveEvery"] = answer.save_every
    if answer.keep is not None:
        content["keep"] = answer.keep
    if not answer.planned:
        content["planned"] = False
    if answer.world is not None:
        world = {
            **vars(answer.world),
            "how": answer.world.how.value,
            "stage": stage_content(answer.world.stage),
        }
        content["world"] = with_old_name(world, "number")
    return json.dumps(content, separators=(",", ":")).encode()


def read_answer(body: bytes) -> Answer:
    """Read an answer of the operator; raises ValueError if it is not one."""
    content = as_object(body, "the answer")
    world = content.get("world")
    stop_at = content.get("stopAt")
    orders = object_of(content.get("orders", {}), "orders")
    return Answer(
        version=string(content, "version"),
        phase=string(content, "phase"),
        world=None if world is None else _world(object_of(world, "world")),
        orders=Orders(
            checkpoint=whole(orders, "checkpoint", default=0),
            stop=whole(orders, "stop", default=0),
            profile=read_profile(orders.get("profile")),
        ),
        stop_at=None if stop_at is None else number(content, "stopAt", float(MOST_STEPS)),
        acknowledged=checkpoint_name(content.get("acknowledged")),
        world_number=world_number(content, "worldNumber", default=0),
        left_out=content.get("leftOut") is True,
        notice=_notice(content.get("notice")),
        planned=content.get("planned") is not False,
        save_every=number(content, "saveEvery", float(MOST_STEPS)),
        keep=None if content.get("keep") is None else max(whole(content, "keep"), 1),
        wire=whole(content, "wire"),
    )


def _orders(orders: Orders) -> dict[str, Any]:
    content: dict[str, Any] = {"checkpoint": orders.checkpoint, "stop": orders.stop}
    if orders.profile is not None:
        content["profile"] = profile_content(orders.profile)
    return content


def _notice(value: object) -> Notice | None:
    if value is None:
        return None
    content = object_of(value, "notice")
    at = number(content, "at", float(MOST_STEPS))
    return None if at is None else Notice(at, one_line(string(content, "reason")))


def _world(content: Mapping[str, Any]) -> World:
    neighbours = content.get("neighbours", [])
    if not isinstance(neighbours, list):
        raise ValueError(f"neighbours is a list, not {shown(neighbours)}")  # noqa: TRY004
    return World(
        number=world_number(content, "number"),
        rank=whole(content, "rank"),
        size=whole(content, "size"),
        processes=whole(content, "processes"),
        store=None if content.get("store") is None else string(content, "store"),
        secret=string(content, "secret"),
        neighbours=tuple(string({"neighbours": one}, "neighbours") for one in neighbours),
        how=How(string(content, "how")),
        switch=content.get("switch") is True,
        restore=checkpoint_name(content.get("restore")),
        planned=content.get("planned") is True,
        stage=read_stage(content.get("stage")),
        trained=whole(content, "trained", default=0),
    )
