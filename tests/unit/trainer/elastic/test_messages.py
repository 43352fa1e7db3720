"""Messages between two processes whose connection has ended, before they begin and amid them."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from spotrun_trainer.elastic.connections import Connections
from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import RankInfo

HERE = "127.0.0.1"

Message = Callable[[Any], Any]


def receive(gloo: Any) -> Any:
    return gloo.recv([torch.zeros(1)], 1, 0)


def send(gloo: Any) -> Any:
    return gloo.send([torch.zeros(1)], 1, 0)


@pytest.fixture
def own() -> Iterator[Group]:
    """One of two processes, played by threads, whose connection has ended amid a message."""
    store = TCPStore(HERE, 0, is_master=True, wait_for_workers=False)
    infos = [RankInfo(rank, 2, world_number=1, store=(HERE, store.port)) for rank in range(2)]
    ends = [Connections(), Connections()]
    with ThreadPoolExecutor() as threads:
        meeting = [
            threads.submit(Group.form, info, device=torch.device("cpu"), connections=end)
            for info, end in zip(infos, ends, strict=True)
        ]
        groups = [one.result() for one in meeting]
    waiting = groups[0].begin_message(
        lambda gloo: gloo.recv([torch.zeros(1)], 1, 0), torch.zeros(1)
    )
    ends[0].cut()
    with pytest.raises(PeerLostError):
        waiting.wait()
    yield groups[0]
    for group in groups:
        group.close()


@pytest.mark.parametrize("message", [receive, send])
def test_a_message_that_cannot_begin_is_the_loss_of_a_peer(own: Group, message: Message) -> None:
    with pytest.raises(PeerLostError, match="a peer is gone"):
        own.begin_message(message, torch.zeros(1)).wait()


def test_a_mistake_of_the_caller_is_no_loss(own: Group) -> None:
    two = [torch.zeros(1), torch.zeros(1)]
    with pytest.raises(RuntimeError, match="single tensor") as raised:
        own.begin_message(lambda gloo: gloo.recv(two, 1, 0), two[0]).wait()
    assert not isinstance(raised.value, PeerLostError)
