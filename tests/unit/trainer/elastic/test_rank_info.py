"""Where a process is, by what stands in its environment and in world.json."""

from pathlib import Path

import pytest

from spotrun.wire import Answer, How, World
from spotrun_trainer.elastic.rank_info import (
    OutdatedWorldError,
    RankInfo,
    find_rank_info,
    rank_info_in,
    with_shards,
)

SECRET = "from the operator"  # noqa: S105
TORCHRUN = {
    "RANK": "2",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "10.0.0.7",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "abc",
    "TORCHELASTIC_RESTART_COUNT": "1",
}
SPOTRUN = {
    **TORCHRUN,
    "SPOTRUN_DIR": "/run/spotrun",
    "SPOTRUN_WORLD_NUMBER": "7",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}


def answer(world_number: int) -> Answer:
    world = World(
        number=world_number,
        rank=2,
        size=4,
        processes=2,
        store="10.0.0.7:29500",
        secret=SECRET,
        neighbours=(),
        how=How.RESTART,
        switch=True,
        restore="step-40.g6",
    )
    return Answer(version="v", phase="Running", world=world)


def test_without_torchrun_a_process_is_alone() -> None:
    assert RankInfo() == find_rank_info({"SPOTRUN_DIR": "/run/spotrun"}, None)


def test_under_plain_torchrun_the_environment_says_it_all() -> None:
    expected = RankInfo(
        rank=2,
        size=4,
        local_rank=0,
        local_size=2,
        store=("10.0.0.7", 29500),
        secret=f"abc.{1}",
    )
    assert expected == find_rank_info(TORCHRUN, None)


def test_rank_0_hosts_the_store_unless_an_agent_does() -> None:
    first = {**TORCHRUN, "RANK": "0"}
    assert find_rank_info(first, None).hosts_store
    assert not find_rank_info({**first, "TORCHELASTIC_USE_AGENT_STORE": "True"}, None).hosts_store


def test_under_spotrun_the_world_adds_its_secret_and_what_to_restore() -> None:
    expected = RankInfo(
        rank=2,
        size=4,
        local_rank=0,
        local_size=2,
        world_number=7,
        store=("10.0.0.7", 29500),
        secret=SECRET,
        restore="step-40.g6",
        directory=Path("/run/spotrun"),
        elastic=True,
    )
    assert expected == find_rank_info(SPOTRUN, answer(7))


@pytest.mark.parametrize("world_number", [6, 8])
def test_a_process_does_not_sit_down_in_a_world_it_was_not_started_for(world_number: int) -> None:
    with pytest.raises(
        OutdatedWorldError, match=f"for world 7, but by now there is world {world_number}"
    ):
        find_rank_info(SPOTRUN, answer(world_number))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"RANK": ""}, "RANK is not set, though .* start the script with torchrun"),
        ({"RANK": "two"}, "RANK must be a whole number, not 'two'"),
        ({"RANK": "4"}, "RANK is 4, but there are only 4 ranks"),
        ({"MASTER_PORT": ""}, "MASTER_PORT is not set"),
    ],
)
def test_a_bad_environment_is_said(changed: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_rank_info({**TORCHRUN, **changed}, None)


@pytest.mark.parametrize(
    ("rank", "place"), [(0, (0, 0)), (1, (1, 0)), (2, (0, 1)), (3, (1, 1))], ids=str
)
def test_neighbours_hold_one_copy_of_the_model(rank: int, place: tuple[int, int]) -> None:
    rank_info = with_shards(RankInfo(rank=rank, size=4), 2)
    assert (rank_info.shard, rank_info.replica) == place
    assert rank_info.replicas == 2


@pytest.mark.parametrize(
    ("shards", "message"), [(3, "4 processes cannot hold whole copies"), (0, "shards=0")]
)
def test_only_whole_copies_are_held(shards: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        with_shards(RankInfo(size=4), shards)


@pytest.mark.parametrize(("local_rank", "fits"), [(0, True), (1, False)])
def test_a_process_keeps_its_part_of_the_model(local_rank: int, fits: bool) -> None:
    world = answer(8).world  # where this worker's first process has rank 2
    assert world is not None
    rank_info = RankInfo(rank=0, size=2, local_rank=local_rank, shards=2)
    if fits:
        assert (rank_info_in(world, rank_info).rank, rank_info_in(world, rank_info).shards) == (
            2,
            2,
        )
        return
    with pytest.raises(
        ValueError, match=r"holds part 0 of 2 .* world 8 its rank would hold another part"
    ):
        rank_info_in(world, rank_info)
