"""The rendezvous of a world's processes in a store, with one message of each."""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from enum import Enum

from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]  # not in __all__

from spotrun_trainer.elastic import background_call
from spotrun_trainer.elastic.errors import PeerLostError
from spotrun_trainer.elastic.rank_info import RankInfo

_LATENESS = 0.1
"""The pause between two checks, as a share of the time waited so far: so a thousand ask rarely.

The store's own wait would be quicker, but each time-out of it is a warning in the log.
"""
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.001, 0.25
_KNOCK_SECONDS, _KNOCK_AGAIN_SECONDS = 1.0, 0.02
_DECISION, _DROP = "verdict", "drop"
_GPU, _SHARED_GPU = 1 << 24, 1 << 44
"""A process with a GPU, or with one that is shared, adds this to the number of arrivals: so the
last one knows the sum of all. There are fewer processes than that."""


class Backend(Enum):
    """The backend of a world's collectives, the same in all processes."""

    GLOO = "gloo"
    NCCL = "nccl"
    NONE = "none"  # some compute on a GPU, some do not


def meet(
    rank_info: RankInfo, timeout_seconds: float, look: Callable[[], None], gpu: str | None = None
) -> tuple[Store, Backend]:
    """Return a world's store and backend once all of its processes are there.

    `gpu` is a unique name of this process's GPU. NCCL needs one for each process, and a process
    does not see the others' GPUs.

    `look` is called while waiting, and may raise PeerLostError: then all give up this world, or
    none does if all were there already.
    """
    store = _connect(rank_info, timeout_seconds, look)
    arrived = store.add("arrived", _weight(store, gpu))
    if arrived % _GPU == rank_info.size:
        backend = _backend(arrived, rank_info.size).value
        return store, _agreed(store.compare_set(_DECISION, "", backend), rank_info)
    began = time.monotonic()
    while not store.check([_DECISION]):
        try:
            look()
        except PeerLostError:
            # One decision for all: else one process might see that all are there, and connect
            # alone.
            if (decision := store.compare_set(_DECISION, "", _DROP)) == _DROP.encode():
                raise
            return store, Backend(decision.decode())
        waited_seconds = time.monotonic() - began
        if waited_seconds > timeout_seconds:
            raise _too_few(store, rank_info, timeout_seconds)
        time.sleep(min(max(_LATENESS * waited_seconds, _SHORTEST_SECONDS), _LONGEST_SECONDS))
    return store, _agreed(store.get(_DECISION), rank_info)


def _weight(store: Store, gpu: str | None) -> int:
    if gpu is None:
        return 1
    is_shared = store.add(f"gpu/{gpu}", 1) > 1
    return 1 + _GPU + is_shared * _SHARED_GPU


def _backend(arrived: int, size: int) -> Backend:
    shared, rest = divmod(arrived, _SHARED_GPU)
    gpus = rest // _GPU
    if gpus and gpus < size:
        return Backend.NONE
    return Backend.NCCL if gpus and not shared else Backend.GLOO


def _connect(rank_info: RankInfo, timeout_seconds: float, look: Callable[[], None]) -> Store:
    assert rank_info.store is not None, "more than one process"
    host, port = rank_info.store
    if rank_info.elastic:
        _knock(rank_info.store, time.monotonic() + timeout_seconds, look)

    def connect() -> TCPStore:
        return TCPStore(
            host,
            port,
            is_master=rank_info.hosts_store,
            timeout=timedelta(seconds=timeout_seconds),
            wait_for_workers=False,
            multi_tenant=True,  # the user's own init_process_group may share it
        )

    # If its host is lost right now, torch retries until the time-out.
    tcp = background_call.call(connect, look)
    store = PrefixStore(rank_info.secret, tcp)
    number = rank_info.world_number
    if not rank_info.elastic:  # each Run of a script is a world, which all processes enter
        number = store.add(f"runs of {rank_info.rank}", 1)
    return PrefixStore(f"{number}", store)


def _knock(address: tuple[str, int], until: float, look: Callable[[], None]) -> None:
    """Wait until the store can be reached: torch's own attempt could not be interrupted."""
    while True:
        look()
        with suppress(OSError):
            socket.create_connection(address, timeout=_KNOCK_SECONDS).close()
            return
        if time.monotonic() > until:
            raise PeerLostError(f"the store of this world at {address} cannot be reached")
        time.sleep(_KNOCK_AGAIN_SECONDS)


def _agreed(decision: bytes, rank_info: RankInfo) -> Backend:
    if decision == _DROP.encode():
        raise PeerLostError(f"world {rank_info.world_number} was given up before all were there")
    backend = Backend(decision.decode())
    if backend is Backend.NONE:
        raise ValueError(
            "some processes of this world compute on a GPU and some on the CPU, and these cannot "
            "add up their gradients: give all workers GPUs, or none, or say Run(device=...)"
        )
    return backend


def _too_few(store: Store, rank_info: RankInfo, timeout_seconds: float) -> PeerLostError:
    there = store.add("arrived", 0) % _GPU
    return PeerLostError(
        f"only {there} of {rank_info.size} processes arrived within {timeout_seconds:.0f} s: "
        "look at the logs of the others, and whether they can reach this one's store"
    )
