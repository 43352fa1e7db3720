"""Where this process is: alone, under plain torchrun, or in a world of spotrun.

A pure function of the environment and of what the agent wrote into world.json.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spotrun import wire


class OutdatedSeatError(Exception):
    """The world that this process was started for is no longer the world."""


@dataclass(frozen=True)
class Seat:
    """A process's place; the defaults are those of a process that is alone."""

    rank: int = 0
    size: int = 1  # processes of the world
    local_rank: int = 0
    local_size: int = 1  # processes of this worker
    generation: int = 0  # of the world; 0 outside spotrun
    store: tuple[str, int] | None = None  # where all processes of the world meet
    hosts_store: bool = False  # nobody else does
    secret: str = ""  # keeps the keys of two worlds in one store apart
    restore: str | None = None  # the checkpoint that the operator names
    directory: Path | None = None  # SPOTRUN_DIR
    elastic: bool = False  # under spotrun: what breaks is followed by the next world


def find_seat(env: Mapping[str, str], answer: wire.Answer | None) -> Seat:
    """Find this process's place; raises OutdatedSeatError, or ValueError for a bad environment."""
    if "RANK" not in env and "WORLD_SIZE" not in env:
        return Seat()
    rank, size = _number(env, "RANK"), _number(env, "WORLD_SIZE")
    if rank >= size:
        raise ValueError(f"RANK is {rank}, but there are only {size} ranks (WORLD_SIZE), from 0 on")
    is_elastic = "SPOTRUN_GENERATION" in env
    generation = _number(env, "SPOTRUN_GENERATION") if is_elastic else 0
    world = _world_of(generation, answer) if is_elastic else None
    restarts = env.get("TORCHELASTIC_RESTART_COUNT", "0")
    return Seat(
        rank=rank,
        size=size,
        local_rank=_number(env, "LOCAL_RANK", "0"),
        local_size=_number(env, "LOCAL_WORLD_SIZE", "1"),
        generation=generation,
        store=(_text(env, "MASTER_ADDR"), _number(env, "MASTER_PORT")) if size > 1 else None,
        # Else torchrun's agent on the first node does.
        hosts_store=rank == 0 and env.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
        secret=world.secret if world else f"{env.get('TORCHELASTIC_RUN_ID', 'run')}.{restarts}",
        restore=world.restore if world else None,
        directory=Path(_text(env, "SPOTRUN_DIR")) if is_elastic else None,
        elastic=is_elastic,
    )


def _world_of(generation: int, answer: wire.Answer | None) -> wire.World:
    world = answer.world if answer is not None else None
    if world is None or world.generation != generation:
        there = f"world {world.generation}" if world else "no world"
        raise OutdatedSeatError(
            f"this process was started for world {generation}, but there is {there} by now"
        )
    return world


def _text(env: Mapping[str, str], name: str) -> str:
    value = env.get(name)
    if not value:
        raise ValueError(
            f"{name} is not set, though RANK or WORLD_SIZE is: start the script with torchrun, "
            "which sets them all, or with neither to train alone"
        )
    return value


def _number(env: Mapping[str, str], name: str, default: str = "") -> int:
    text = env.get(name, default) or _text(env, name)
    if not text.isdecimal():
        raise ValueError(f"{name} is a whole number, not {text!r}")
    return int(text)
