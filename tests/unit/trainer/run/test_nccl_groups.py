"""A group of NCCL: made where it can be left, taken apart where it ends, and alone in its ways."""

import os
import threading
from collections.abc import Iterator

import pytest
import torch
from torch import distributed
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # not in __all__
from typing_extensions import override

from spotrun_trainer.elastic import process_group
from spotrun_trainer.elastic.connections import Connections
from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import RankInfo
from spotrun_trainer.elastic.store_rendezvous import Backend

GPU = torch.device("cuda", 0)
WATCHDOG = "TORCH_NCCL_ASYNC_ERROR_HANDLING"


class Nccl:
    """NCCL's group as torch makes it: nothing is connected before it is asked for."""

    Options = distributed.ProcessGroupNCCL.Options

    def __init__(self, *_: object) -> None:
        self.watchdog = os.environ.get(WATCHDOG)
        self.bound_device_id: torch.device | None = None
        self.connected: list[tuple[torch.device, torch.device | None]] = []

    def eager_connect_single_device(self, device: torch.device) -> None:
        self.connected.append((device, self.bound_device_id))


class Deaf(Nccl):
    """One whose peer was lost when both were to connect."""

    may_end = threading.Event()

    @override
    def eager_connect_single_device(self, _device: torch.device) -> None:
        self.may_end.wait()


@pytest.fixture
def store() -> TCPStore:
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


@pytest.fixture
def all_have_met(monkeypatch: pytest.MonkeyPatch, store: TCPStore) -> RankInfo:
    """A place in a world of two, each with a GPU, that have met and are to connect."""
    met = PrefixStore("world", store), Backend.NCCL
    monkeypatch.setattr(process_group, "meet", lambda *_: met)
    monkeypatch.setattr(process_group, "name_of_gpu", lambda _device: "a")
    if not torch.cuda.is_available():
        monkeypatch.setattr(process_group, "with_index", lambda device: device)
    return RankInfo(size=2, store=("127.0.0.1", store.port), world_number=1)


@pytest.fixture
def without_watchdog(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(WATCHDOG, "3")  # as the user's own groups have it
    yield
    assert os.environ[WATCHDOG] == "3"


@pytest.mark.usefixtures("without_watchdog")
def test_it_connects_when_it_is_made_and_leaves_the_users_own_groups_alone(
    monkeypatch: pytest.MonkeyPatch, all_have_met: RankInfo
) -> None:
    monkeypatch.setattr(distributed, "ProcessGroupNCCL", Nccl)
    made = Group.form(all_have_met, device=GPU)
    assert made._backend.connected == [(GPU, GPU)]
    assert made._backend.watchdog == "0"
    made.close()


def test_where_nothing_is_asked_of_the_watchdog_nothing_is_left_of_it(
    monkeypatch: pytest.MonkeyPatch, all_have_met: RankInfo
) -> None:
    monkeypatch.delenv(WATCHDOG, raising=False)
    monkeypatch.setattr(distributed, "ProcessGroupNCCL", Nccl)
    Group.form(all_have_met, device=GPU).close()
    assert WATCHDOG not in os.environ


def test_connecting_to_a_lost_peer_can_be_left(
    monkeypatch: pytest.MonkeyPatch, all_have_met: RankInfo
) -> None:
    monkeypatch.setattr(distributed, "ProcessGroupNCCL", Deaf)
    connections = Connections()
    threading.Timer(0.1, connections.cut).start()
    with pytest.raises(PeerLostError, match="the connections of this world were cut"):
        Group.form(all_have_met, device=GPU, connections=connections)
    Deaf.may_end.set()


@pytest.mark.gpu
def test_a_peer_that_never_connects_by_nccl_holds_nobody_up(all_have_met: RankInfo) -> None:
    connections = Connections()
    threading.Timer(3.0, connections.cut).start()
    with pytest.raises(PeerLostError):
        Group.form(all_have_met, device=GPU, connections=connections)
