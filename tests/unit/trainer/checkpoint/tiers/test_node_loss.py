"""Nodes that are lost, with the agent and the memory of each: the others have every part."""

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from spotrun_trainer.checkpoint import (
    DamagedCheckpointError,
    UnreadableCheckpointError,
    storage_retries,
)
from spotrun_trainer.checkpoint.format.manifest import data_file
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.reading import lanes, together
from spotrun_trainer.checkpoint.tiers.client import connected
from spotrun_trainer.checkpoint.tiers.folder import Folder
from spotrun_trainer.checkpoint.tiers.gathered import Gathered
from spotrun_trainer.checkpoint.tiers.newest import Found
from spotrun_trainer.state.tracked import Tracked
from tests.support.storage.tier_nodes import SECRET, Node, World
from tests.unit.trainer.checkpoint.states import same, small_training

Nodes = list[Node]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Three nodes; more may be added."""
    made = [Node(tmp_path, name) for name in "abc"]
    yield made
    for node in made:
        node.lose()


def trainings(count: int) -> list[Tracked]:
    return [small_training(seed=1) for _ in range(count)]


def step(states: list[Tracked]) -> None:
    """Change all of them in the same way."""
    for state in states:
        for tensor in state.flatten().tensors.values():
            if tensor.is_floating_point():
                tensor.detach().add_(1.0)


def ask(address: str, secret: str, request: dict[str, object]) -> dict[str, object]:
    """Ask an agent something; returns its answer."""
    with connected(address, secret) as channel:
        channel.send(request)
        return channel.receive()


def save_and_lose_the_first(nodes: Nodes, folder: Path) -> None:
    """Save step 5 on all nodes, and replace the first one."""
    world = World(nodes, trainings(3), 1)
    world.begin(5)
    assert not world.until_done().failed
    nodes[0].lose()
    nodes[0] = Node(folder, "replacement")


def found_after_a_loss(nodes: Nodes, folder: Path) -> tuple[World, Found, list[Tracked]]:
    """Lose the first node; returns the next world, what it finds, and the states to fill."""
    save_and_lose_the_first(nodes, folder)
    after = World(nodes, fresh := [small_training(seed=2) for _ in range(3)], 2)
    found = after.find()
    assert found is not None
    return after, found, fresh


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_any_one_node_may_be_lost(lost: int, nodes: Nodes, tmp_path: Path) -> None:
    states = trainings(3)
    world = World(nodes, states, 1)
    world.begin(5)
    assert not world.until_done().failed
    expected = trainings(1)[0]
    nodes[lost].lose()
    nodes[lost] = Node(tmp_path, "replacement")
    after = World(nodes, fresh := [small_training(seed=2) for _ in range(3)], 2)
    found = after.find(durable="step-1.g1")
    assert found is not None
    assert str(found.name) == "step-5.g1"
    after.load(found)
    assert all(same(expected.flatten(), state.flatten()) for state in fresh)


def test_all_parts_together_are_read_once(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "SHARE_BYTES", 0)
    after, found, fresh = found_after_a_loss(nodes, tmp_path)
    opened, parts = Gathered.opened, list[str]()

    def counted(
        place: Gathered, name: Name, file: str, reads: Sequence[tuple[int, int]] = ()
    ) -> Any:
        if reads:
            parts.append(file)
        return opened(place, name, file, reads)

    monkeypatch.setattr(Gathered, "opened", counted)
    after.load_together(found)
    # Opened for its header, and to be read.
    assert sorted(parts) == [data_file(rank) for rank in (0, 0, 1, 1, 2, 2)]
    assert all(same(trainings(1)[0].flatten(), state.flatten()) for state in fresh)


def test_a_save_that_was_under_way_costs_not_the_one_before(nodes: Nodes, tmp_path: Path) -> None:
    states = trainings(3)
    world = World(nodes, states, 1)
    for number in (5, 6):
        world.begin(number)
        assert not world.until_done().failed
        step(states)
    nodes[1].lose()  # amid the next save, before all have concluded
    world.begin(7, lost=1)
    assert world.until_done().failed
    nodes[1] = Node(tmp_path, "replacement")
    found = World(nodes, trainings(3), 2).find()
    assert found is not None
    assert str(found.name) == "step-6.g1"


def test_a_save_whose_end_only_some_have_seen_is_kept_by_all(nodes: Nodes, tmp_path: Path) -> None:
    world = World(nodes, trainings(3), 1)
    world.begin(5)
    assert not world.until_done().failed
    world.begin(6)
    while (total := world.vote(concluding=1)).busy:  # the world ends amid this sum
        pass
    assert not total.failed
    world.enter(2)
    assert {str(tier.complete) for tier in world.tiers} == {"step-6.g1"}
    nodes[1].lose()  # amid the next save, which has deleted all other steps
    world.begin(7, lost=1)
    assert world.until_done().failed
    nodes[1] = Node(tmp_path, "replacement")
    found = World(nodes, trainings(3), 3).find()
    assert found is not None
    assert str(found.name) == "step-6.g1"


def test_two_steps_lie_in_a_folder_at_most(nodes: Nodes) -> None:
    world = World(nodes, trainings(3), 1)
    for number in range(1, 6):
        world.begin(number)
        assert not world.until_done().failed
        for node in nodes:
            lying = {one.name for one in node.settings.folder.iterdir()}
            assert lying <= {f"step-{number}.g1", f"step-{number - 1}.g1"}


def test_a_step_may_be_deleted_while_somebody_looks_for_room(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(nodes[0].settings)
    monkeypatch.setattr(Folder, "names", lambda _self: [Name(4, 1)])
    folder.check_room(1)
    assert folder.held() == []


def test_a_folder_that_is_too_small_says_so_and_keeps_what_it_has(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    few = [Node(tmp_path, name, limit_bytes=1000) for name in "ab"]
    world = World(few, trainings(2), 1)
    world.begin(5)
    assert world.until_done().failed
    assert world.find() is None
    world.begin(6)
    assert world.until_done().failed
    said = capfd.readouterr().err
    assert said.count("raise checkpoint.local.sizeLimit") == 2, "each worker says it once"
    assert "training continues" in said
    for node in few:
        node.lose()


def test_a_part_is_read_in_lanes(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "LANE_BYTES", 512)
    after, found, fresh = found_after_a_loss(nodes, tmp_path)
    ranges, read = list[tuple[int, int]](), Gathered.opened

    def noted(place: Gathered, name: Name, file: str, reads: Sequence[tuple[int, int]] = ()) -> Any:
        if file == data_file(0):
            ranges.extend(reads)
        return read(place, name, file, reads)

    monkeypatch.setattr(Gathered, "opened", noted)
    after.load(found)
    assert len(set(ranges)) > lanes.LANES  # the lanes, and the whole file for its length
    assert all(same(trainings(1)[0].flatten(), state.flatten()) for state in fresh)


@pytest.mark.parametrize("lane_bytes", [512, lanes.LANE_BYTES])
def test_a_copy_that_was_changed_is_not_loaded(
    lane_bytes: int, nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "LANE_BYTES", lane_bytes)
    save_and_lose_the_first(nodes, tmp_path)
    file = nodes[1].settings.folder / "step-5.g1" / "rank-0.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    after = World(nodes, trainings(3), 2)
    found = after.find()
    assert found is not None
    with pytest.raises(DamagedCheckpointError, match="its hash differs"):
        after.load(found)


def test_a_holder_that_is_gone_is_an_error_that_names_it(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_retries, "READ_SECONDS", 0.0)
    save_and_lose_the_first(nodes, tmp_path)
    after = World(nodes, trainings(3), 2)
    found = after.find()
    assert found is not None
    nodes[1].lose()
    with pytest.raises(UnreadableCheckpointError, match="cannot be reached"):
        after.load(found)


def test_a_holder_that_is_away_for_a_moment_is_asked_again(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after, found, fresh = found_after_a_loss(nodes, tmp_path)
    connect, refusals = socket.create_connection, iter(range(2))

    def refused_at_first(address: tuple[str, int], seconds: float) -> socket.socket:
        if next(refusals, None) is not None:
            raise ConnectionRefusedError
        return connect(address, seconds)

    monkeypatch.setattr(socket, "create_connection", refused_at_first)
    after.load(found)
    assert all(same(trainings(1)[0].flatten(), state.flatten()) for state in fresh)


def test_without_the_secret_nobody_reads_or_writes(nodes: Nodes) -> None:
    World(nodes, trainings(3), 1).begin(5)
    address = nodes[0].settings.endpoint.address
    request = {"what": "data", "name": "step-5.g1", "rank": 0, "start": 0, "count": 9}
    for secret in ("of another world", SECRET[:-1]):
        with pytest.raises(OSError, match="cannot be reached"):
            ask(address, secret, request)


@pytest.mark.parametrize(
    "request_",
    [
        {"what": "data", "name": "../other", "rank": 0, "start": 0, "count": 1},
        {"what": "put", "name": "step-5.g1", "rank": -1, "data": 1, "manifest": 1},
        {"what": "put", "name": "step-5.g1", "rank": "../0", "data": 1, "manifest": 1},
        {"what": "remove", "name": "step-5.g1", "rank": 0},
    ],
)
def test_a_request_with_a_path_ends_the_connection(
    request_: dict[str, object], nodes: Nodes
) -> None:
    address = nodes[0].settings.endpoint.address
    with pytest.raises(OSError, match="closed the connection"):
        ask(address, SECRET, request_)
    assert not any(nodes[0].settings.folder.iterdir())


def test_another_number_of_processes_reads_the_same(nodes: Nodes) -> None:
    world = World(nodes, trainings(3), 1)
    world.begin(5)
    assert not world.until_done().failed
    after = World(nodes[:2], fresh := [small_training(seed=2) for _ in range(2)], 2)
    found = after.find()
    assert found is not None, "the copies of the third node's part are on the first"
    after.load(found)
    assert all(same(trainings(1)[0].flatten(), state.flatten()) for state in fresh)
    assert torch.equal(*(next(iter(one.flatten().tensors.values())) for one in fresh))
