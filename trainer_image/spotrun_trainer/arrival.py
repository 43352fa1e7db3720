"""The processes of a world meet: in a store, by one message of each, however many they are."""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]  # not in __all__

from spotrun_trainer.lost import PeerLostError
from spotrun_trainer.seat import Seat

_LATENESS = 0.1
"""Of the time waited so far: so few looks are made by a thousand, and none of them is felt.

The store could tell by itself, but then each time-out of a wait is a warning in the log.
"""
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.001, 0.25
_KNOCK_SECONDS, _KNOCK_AGAIN_SECONDS = 1.0, 0.02
_VERDICT, _GO, _DROP = "verdict", "go", "drop"


def meet(seat: Seat, timeout_seconds: float, look: Callable[[], None]) -> Store:
    """Return the store of a world once all of its processes are there.

    `look` is called while waiting, and may raise PeerLostError: then all give this world up, or if
    all were there already, none.
    """
    store = _connect(seat, timeout_seconds, look)
    if store.add("arrived", 1) == seat.size:
        _check(store.compare_set(_VERDICT, "", _GO), seat)
        return store
    began = time.monotonic()
    while not store.check([_VERDICT]):
        try:
            look()
        except PeerLostError:
            # One verdict for all: else somebody might find everybody there, and connect alone.
            if store.compare_set(_VERDICT, "", _DROP) != _GO.encode():
                raise
            return store
        waited_seconds = time.monotonic() - began
        if waited_seconds > timeout_seconds:
            raise _too_few(store, seat, timeout_seconds)
        time.sleep(min(max(_LATENESS * waited_seconds, _SHORTEST_SECONDS), _LONGEST_SECONDS))
    _check(store.get(_VERDICT), seat)
    return store


def _connect(seat: Seat, timeout_seconds: float, look: Callable[[], None]) -> Store:
    assert seat.store is not None, "more than one process"
    host, port = seat.store
    if seat.elastic:
        _knock(seat.store, time.monotonic() + timeout_seconds, look)
    tcp = TCPStore(
        host,
        port,
        is_master=seat.hosts_store,
        timeout=timedelta(seconds=timeout_seconds),
        wait_for_workers=False,
        multi_tenant=True,  # the user's own init_process_group may share it
    )
    return PrefixStore(f"{seat.secret}/{seat.generation}", tcp)


def _knock(address: tuple[str, int], until: float, look: Callable[[], None]) -> None:
    """Wait until the store can be reached: torch's own attempt could not be given up."""
    while True:
        look()
        with suppress(OSError):
            socket.create_connection(address, timeout=_KNOCK_SECONDS).close()
            return
        if time.monotonic() > until:
            raise PeerLostError(f"the store of this world at {address} cannot be reached")
        time.sleep(_KNOCK_AGAIN_SECONDS)


def _check(verdict: bytes, seat: Seat) -> None:
    if verdict != _GO.encode():
        raise PeerLostError(f"world {seat.generation} was given up before all were there")


def _too_few(store: Store, seat: Seat, timeout_seconds: float) -> PeerLostError:
    there = store.add("arrived", 0)
    return PeerLostError(
        f"only {there} of {seat.size} processes arrived within {timeout_seconds:.0f} s: "
        "look at the logs of the others, and whether they can reach this one's store"
    )
