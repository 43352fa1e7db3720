"""The rank of this process: alone, under plain torchrun, or in a world of spotrun.

A pure function of the environment and of what the agent wrote into world.json.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from spotrun import wire
from spotrun_trainer.parallel.degrees import Parallel
from spotrun_trainer.process.addresses import split_address


class OutdatedWorldError(Exception):
    """The world that this process was started for is no longer the newest one."""


@dataclass(frozen=True)
class RankInfo:
    """A process's rank, its world's size and store; the defaults are of a process alone."""

    rank: int = 0
    size: int = 1  # processes of the world
    local_rank: int = 0
    local_size: int = 1  # processes of this worker
    world_number: int = 0  # of the world; 0 outside spotrun
    store: tuple[str, int] | None = None  # where all processes of the world meet
    hosts_store: bool = False  # else another process or the agent does
    secret: str = ""  # keeps the keys of two worlds in one store apart
    restore: str | None = None  # the checkpoint named by the operator
    directory: Path | None = None  # SPOTRUN_DIR
    elastic: bool = False  # under spotrun: another world follows one that broke
    joins: bool = False  # the others have the state
    shards: int = 1  # processes that hold one copy of the model together, in neighbouring ranks
    parallel: Parallel | None = None  # what each of these does; None: the script decides

    @property
    def shard(self) -> int:
        """The part of the model that this process holds, the same in every world."""
        return self.rank % self.shards

    @property
    def replica(self) -> int:
        """The copy of the model that this process has a part of."""
        return self.rank // self.shards

    @property
    def stages(self) -> int:
        """The stages of a copy, each with other layers."""
        return 1 if self.parallel is None else self.parallel.pipeline

    @property
    def axes(self) -> list[range]:
        """The processes of its copy with which this one forms smaller groups.

        They are those in a line with it, where a mesh has several dimensions; else there are none.
        """
        return [] if self.parallel is None else self.parallel.axes(self.shard)

    @property
    def replicas(self) -> int:
        """The number of copies of the model."""
        return self.size // self.shards


def with_shards(rank_info: RankInfo, shards: int, parallel: Parallel | None = None) -> RankInfo:
    """Return the rank info with `shards` processes for a copy, or those of a plan.

    Raises ValueError if the processes of the world do not make up whole copies.
    """
    what = f"shards={shards}"
    if parallel is not None:
        shards, what = parallel.size, str(parallel)
    if shards < 1:
        raise ValueError(f"{what}: at least one process must hold the model")
    if rank_info.size % shards:
        raise ValueError(
            f"{rank_info.size} processes cannot hold whole copies of a model that takes {shards} "
            f"({what}): start a multiple of {shards} with torchrun, or give the TrainingJob "
            "workers.perReplica, so that it always has whole copies"
        )
    return replace(rank_info, shards=shards, parallel=parallel if shards > 1 else None)


def find_rank_info(env: Mapping[str, str], answer: wire.Answer | None) -> RankInfo:
    """Find this process's rank; raises OutdatedWorldError, or ValueError for a bad environment."""
    if "RANK" not in env and "WORLD_SIZE" not in env:
        return RankInfo()
    rank, size = _number(env, "RANK"), _number(env, "WORLD_SIZE")
    if rank >= size:
        raise ValueError(
            f"RANK is {rank}, but there are only {size} ranks (WORLD_SIZE), counted from 0"
        )
    restarts = env.get("TORCHELASTIC_RESTART_COUNT", "0")
    is_elastic = "SPOTRUN_WORLD_NUMBER" in env
    rank_info = RankInfo(
        rank=rank,
        size=size,
        local_rank=_number(env, "LOCAL_RANK", "0"),
        local_size=_number(env, "LOCAL_WORLD_SIZE", "1"),
        store=(_text(env, "MASTER_ADDR"), _number(env, "MASTER_PORT")) if size > 1 else None,
        # Else torchrun's agent on the first node does.
        hosts_store=rank == 0 and env.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
        secret=f"{env.get('TORCHELASTIC_RUN_ID', 'run')}.{restarts}",
    )
    if not is_elastic:
        return rank_info
    world_number = _number(env, "SPOTRUN_WORLD_NUMBER")
    world = _world_of(world_number, answer)
    rank_info = replace(rank_info, directory=Path(_text(env, "SPOTRUN_DIR")), elastic=True)
    if world.number > world_number:
        return rank_info_in(world, rank_info)
    return replace(
        rank_info,
        world_number=world_number,
        secret=world.secret,
        restore=world.restore,
        joins=world.how is not wire.How.RESTART,
    )


def rank_info_in(world: wire.World, rank_info: RankInfo) -> RankInfo:
    """Return a running process's rank info in another world.

    Raises ValueError for a bad store, or if the rank would belong to another part of the model.
    """
    there = _place_in(world, rank_info)
    if rank_info.shards > 1 and (there.size % rank_info.shards or there.shard != rank_info.shard):
        raise ValueError(
            f"this process holds part {rank_info.shard} of {rank_info.shards} of the model, and in "
            f"world {world.number} its rank would hold another part: make workers.perReplica times "
            f"the processes of a worker a multiple of {rank_info.shards}, the processes of a copy"
        )
    return there


def _place_in(world: wire.World, rank_info: RankInfo) -> RankInfo:
    return replace(
        rank_info,
        rank=world.rank + rank_info.local_rank,
        size=world.size,
        world_number=world.number,
        store=split_address(world.store) if world.store and world.size > 1 else None,
        hosts_store=False,
        secret=world.secret,
        restore=world.restore,
        joins=world.how is not wire.How.RESTART,
    )


def is_newer(world: wire.World | None, world_number: int) -> bool:
    """Whether a newer world must be entered, or was entered by others."""
    return world is not None and world.switch and world.number > world_number


def can_be_entered(world: wire.World | None, world_number: int) -> bool:
    """Whether a running process has a rank in a newer world, and a store to meet in."""
    return (
        world is not None
        and is_newer(world, world_number)
        and world.how is not wire.How.RESTART
        and world.processes > 0
        and world.store is not None
    )


def has_boundary(world: wire.World | None, world_number: int) -> bool:
    """Whether all must enter a newer world together, at the end of a step."""
    return world is not None and is_newer(world, world_number) and world.how is wire.How.BOUNDARY


def is_given_up(world: wire.World | None, world_number: int, *, is_formed: bool) -> bool:
    """Whether a wait in a world is useless: only a step boundary is reached together."""
    return is_newer(world, world_number) and not (is_formed and has_boundary(world, world_number))


def _world_of(world_number: int, answer: wire.Answer | None) -> wire.World:
    world = answer.world if answer is not None else None
    if world is not None:
        if world.number == world_number:
            return world
        # A joining worker was started for a world that is not prepared any more, but this one is.
        if world.number > world_number and world.how is not wire.How.RESTART and world.processes:
            return world
    there = f"world {world.number}" if world else "no world"
    raise OutdatedWorldError(
        f"this process was started for world {world_number}, but by now there is {there}"
    )


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
        raise ValueError(f"{name} must be a whole number, not {text!r}")
    return int(text)
