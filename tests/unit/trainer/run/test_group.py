"""A group that is left while something is under way in it, or while it is being formed."""

import fcntl
import os
import socket
import threading
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.distributed import Store  # type: ignore[attr-defined]  # not in its __all__
from typing_extensions import override

from spotrun_trainer.elastic import process_group as group_module
from spotrun_trainer.elastic import state_transfer
from spotrun_trainer.elastic.backends import gloo, p2p_stream
from spotrun_trainer.elastic.backends.gloo import CONNECT_SECONDS
from spotrun_trainer.elastic.connections import Connections
from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.pending_collectives import SLICE
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import RankInfo, find_rank_info
from spotrun_trainer.elastic.state_transfer import Place
from spotrun_trainer.elastic.store_rendezvous import Backend, meet
from spotrun_trainer.parallel.collectives import _reduce_scatter
from spotrun_trainer.state.tracked import Tracked
from tests.support.processes.trainer_world import run_world
from tests.unit.trainer.run.elastic import die

CPU = torch.device("cpu")
PATIENCE_SECONDS = 20.0


def leave_what_does_not_end(lock: Path) -> bool:
    """Rank 0 leaves amid a sum; rank 1 does not take part, and says whether that one has ended."""
    rank_info = find_rank_info(os.environ, None)
    held = os.open(lock, os.O_CREAT | os.O_RDWR)
    if rank_info.rank == 0:
        fcntl.flock(held, fcntl.LOCK_EX)  # until this process is no more
    group = Group.form(rank_info, device=CPU)
    if rank_info.rank == 0:
        group.all_reduce(torch.ones(4))
        group.close()
        return True
    return can_be_locked(held)


def can_be_locked(held: int) -> bool:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            return True
    return False


def test_who_leaves_a_group_amid_a_sum_does_not_wait_for_its_end(tmp_path: Path) -> None:
    ended = run_world(2, leave_what_does_not_end, tmp_path / "lock")
    assert [one.value for one in ended] == [True, True], [one.said for one in ended]


class LastWords(Store):
    """A store whose process dies once it has said where it can be reached."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    @override
    def set(self, key: str, value: str) -> None:
        self._store.set(key, value)

    @override
    def wait(self, *_: object) -> None:
        die()


def meet_at_last(*args: Any) -> tuple[Store, Backend]:
    store, backend = meet(*args)
    return LastWords(store), backend


def connect_to_one_who_dies(victim: int) -> float:
    """One process dies amid connecting; returns how long the other one has waited for it."""
    rank_info, connections = find_rank_info(os.environ, None), Connections()
    if rank_info.rank == victim:
        group_module.meet = meet_at_last  # type: ignore[attr-defined,assignment]
    connect = gloo.make

    def connecting(*args: Any, **kwargs: Any) -> object:
        # As the watch does, when there is another world by then.
        threading.Timer(0.3, connections.cut).start()
        return connect(*args, **kwargs)

    gloo.make = connecting
    began = time.monotonic()
    with pytest.raises(PeerLostError):
        Group.form(rank_info, device=CPU, connections=connections).all_gather(torch.ones(1))
    return time.monotonic() - began


@pytest.mark.parametrize("victim", [0, 1])
def test_who_connects_to_one_who_died_is_freed_with_the_next_world(victim: int) -> None:
    ended = run_world(2, connect_to_one_who_dies, victim)
    survivor = ended[1 - victim]
    assert (survivor.error, survivor.exit_code) == ("", 0), survivor.said
    assert survivor.value < CONNECT_SECONDS


def send_late() -> list[float]:
    """Rank 0 sends so late that rank 1 has looked for its message several times."""
    rank_info = find_rank_info(os.environ, None)
    group, said = Group.form(rank_info, device=CPU), torch.zeros(2)
    if rank_info.rank == 0:
        time.sleep(3 * SLICE.total_seconds())
        group.send([torch.ones(2)], 1).wait()
    else:
        group.receive([said], 0).wait()
    total = torch.ones(1)
    group.all_reduce(total).wait()
    return [*said.tolist(), total.item()]


def test_a_message_may_take_its_time() -> None:
    ended = run_world(2, send_late)
    assert [one.value for one in ended] == [[0, 0, 2], [1, 1, 2]], [one.said for one in ended]


def give_after_an_evaluation() -> dict[str, Any] | None:
    """Rank 1 has to wait longer for the state to come than for any other message.

    So has rank 2, which sends a share of it: rank 0 says first what there is.
    """
    p2p_stream.MESSAGE = timedelta(seconds=1.0)
    rank_info = find_rank_info(os.environ, None)
    group, tracked = Group.form(rank_info, device=CPU), Tracked()
    tracked.add("model", nn.Linear(2, 2))
    group.all_gather(torch.ones(1))
    sources, extra = (0, 2), None
    if rank_info.rank == 1:
        header = state_transfer.receive_header(group, sources[0], CPU)
        state_transfer.receive(group, sources, tracked, header, CPU)
        extra = header.extra
    else:
        if rank_info.rank == 0:
            time.sleep(2.5 * p2p_stream.MESSAGE.total_seconds())
        place = Place(sources.index(rank_info.rank), len(sources))
        snapshot = state_transfer.take_snapshot(tracked, {"step": 3})
        state_transfer.send(group, 1, snapshot, CPU, place).wait()
    group.all_gather(torch.ones(1))  # so nobody has left while rank 1 still receives
    return extra


def test_a_state_is_waited_for_as_long_as_who_gives_it_evaluates() -> None:
    ended = run_world(3, give_after_an_evaluation)
    assert [one.value for one in ended] == [None, {"step": 3}, None], [one.said for one in ended]


def sum_beside_a_stranger() -> float:
    """A thread connects to somewhere else amid this; and rank 0 takes part in a sum only late."""
    rank_info, connect = find_rank_info(os.environ, None), gloo.make
    with ExitStack() as strangers:

        def connecting(*args: Any, **kwargs: Any) -> object:
            listening = strangers.enter_context(socket.create_server(("127.0.0.1", 0)))
            strangers.enter_context(socket.create_connection(listening.getsockname()))
            return connect(*args, **kwargs)

        gloo.make = connecting
        group = Group.form(rank_info, device=CPU)
    if rank_info.rank == 0:
        time.sleep(5 * SLICE.total_seconds())
    total = torch.ones(1)
    group.all_reduce(total).wait()
    return total.item()


def test_a_connection_of_another_thread_that_ends_breaks_no_world() -> None:
    ended = run_world(2, sum_beside_a_stranger)
    assert [one.value for one in ended] == [2, 2], [one.said for one in ended]


@pytest.mark.parametrize("size", [2, 4])
def test_each_is_connected_to_each_and_to_nobody_else(size: int) -> None:
    ended = run_world(size, num_strangers)
    assert [one.value for one in ended] == [0] * size, [one.said for one in ended]


def num_strangers() -> int:
    """Connections beside those that a group of gloo has."""
    rank_info, connections = find_rank_info(os.environ, None), Connections()
    group = Group.form(rank_info, device=CPU, connections=connections)
    group.all_reduce(torch.ones(1)).wait()  # so nobody has left while others still connect
    return len(connections._to_peers) - (rank_info.size - 1)


def wait_in_vain() -> bool:
    """Rank 0 sends nothing; rank 1 has its connections cut while it waits."""
    rank_info, connections = find_rank_info(os.environ, None), Connections()
    group = Group.form(rank_info, device=CPU, connections=connections)
    if rank_info.rank == 0:
        with pytest.raises(PeerLostError):
            list(map(group.all_gather, [torch.ones(1)] * 2))
        return True
    group.all_gather(torch.ones(1))  # so the other one is there
    message = group.receive([torch.zeros(1)], 0)
    connections.cut()
    with pytest.raises(PeerLostError):
        message.wait()
    return True


def test_who_waits_for_a_message_is_freed_when_connections_are_cut() -> None:
    ended = run_world(2, wait_in_vain)
    assert [one.value for one in ended] == [True, True], [one.said for one in ended]


def sum_parts_several_times() -> tuple[list[float], int, bool]:
    """Sums of gloo's reduce-scatter, how many works the group still holds, and if none is open."""
    group = Group.form(find_rank_info(os.environ, None), device=CPU)
    summed, options = torch.zeros(1), distributed.ReduceScatterOptions()
    for _ in range(3):
        group.begin(
            lambda gloo: _reduce_scatter(gloo)(summed, torch.arange(2.0), options), summed
        ).wait()
    group.all_reduce(torch.ones(1)).wait()
    return summed.tolist(), len(group._begun), group._is_quiet()


def test_a_group_holds_no_work_that_was_waited_for() -> None:
    for rank, one in enumerate(run_world(2, sum_parts_several_times)):
        assert one.error == "", one.said
        assert one.value == ([2.0 * rank], 1, True)


class EndsAsTheWaitDoes:
    """A work that completes in the very moment in which a wait for it has taken long enough."""

    def __init__(self, failure: str | None) -> None:
        self._failure = failure
        self._is_completed = False

    def wait(self, _timeout: object) -> None:
        if not self._is_completed:
            self._is_completed = True
            raise RuntimeError("Operation timed out!")
        if self._failure:
            raise RuntimeError(self._failure)

    def is_completed(self) -> bool:
        return self._is_completed


@pytest.mark.parametrize("failure", [None, "Connection closed by peer"])
def test_what_ends_as_the_wait_for_it_does_has_succeeded_unless_it_failed(
    failure: str | None,
) -> None:
    # gloo cannot be made to: it took three of 219 trainings of three processes on two busy cores.
    pending = Group(rank=0, size=2, backend=EndsAsTheWaitDoes(failure)).begin(
        lambda work: work, torch.zeros(1)
    )
    if failure is None:
        pending.wait()
        return
    with pytest.raises(PeerLostError, match=failure):
        pending.wait()


def test_a_store_that_is_lost_once_it_was_found_is_left_with_the_next_world() -> None:
    """torch goes on trying to connect to it until its time-out."""
    listening = socket.create_server(("127.0.0.1", 0))
    port: int = listening.getsockname()[1]

    def be_found_and_lost() -> None:
        listening.accept()[0].close()
        listening.close()
        lost.set()

    def look() -> None:
        if lost.is_set():
            raise PeerLostError("there is a newer world")

    lost = threading.Event()
    threading.Thread(target=be_found_and_lost).start()
    rank_info = RankInfo(rank=1, size=2, store=("127.0.0.1", port), world_number=1, elastic=True)
    began = time.monotonic()
    with pytest.raises(PeerLostError):
        meet(rank_info, 15.0, look)
    assert time.monotonic() - began < 15.0
