"""Heartbeats between neighbours: a silent worker is suspected long before any time-out ends.

A datagram carries world number, place in the ring and the sender's clock, and is signed with the
world's secret: datagrams of others, of an older world, and repeated ones are ignored. A neighbour
that was never heard in this world is suspected only for a while: it may have been lost right after
it entered. But if the network drops all datagrams, every neighbour looks lost.
"""

import hmac
import logging
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from spotrun.wire import World
from spotrun_trainer.agent.next_action import place, workers

log = logging.getLogger(__name__)

PORT = 29_419
"""A fixed port: neighbours know only each other's address, and a pod shares its ports with
nobody."""
BEAT_SECONDS = 0.25
SILENT_SECONDS = 1.5
"""Six beats; a busy machine delays one or two. A suspected worker that lives is cleared by its next
beat."""
UNHEARD_SECONDS = 8.0
"""A neighbour that was never heard in a world is suspected this long after the world was entered.
The operator needs 2 s to find out; after 10 s it gives up a worker that neither neighbour hears,
even if that worker still answers it."""
_OWN_PAUSE_SECONDS = 0.75
"""A worker that did not run for this long cannot judge whether others were silent."""

_BODY = struct.Struct("!QIQ")
_SIGNATURE_BYTES = 16
_DATAGRAM_BYTES = _BODY.size + _SIGNATURE_BYTES


@dataclass
class Ring:
    """One worker's view of its neighbours in one world; pure, time is an argument."""

    world_number: int
    place: int  # among workers, as suspects are counted
    workers: int
    secret: bytes
    began_at: float = float("-inf")  # when all entered it; -inf: it is only prepared
    _heard: dict[int, tuple[int, float]] = field(default_factory=dict)  # place -> clock, when

    @classmethod
    def of(cls, world: World, now: float) -> "Ring":
        """Make the ring of a world that this worker is in, or joins.

        While the world is only prepared the others are not in it yet.
        """
        began_at = now if world.switch else float("-inf")
        secret = world.secret.encode()
        return cls(world.number, place(world), workers(world), secret, began_at)

    @property
    def neighbours(self) -> frozenset[int]:
        """The places before and after this one: one in a world of two, none in a world of one."""
        around = {(self.place - 1) % self.workers, (self.place + 1) % self.workers}
        return frozenset(around - {self.place})

    def beat(self, clock: int) -> bytes:
        """Return a signed datagram; `clock` only grows."""
        body = _BODY.pack(self.world_number, self.place, clock)
        return body + self._signature(body)

    def hear(self, datagram: bytes, now: float) -> None:
        """Note a datagram, if it is a neighbour's and newer than the one before."""
        if len(datagram) != _DATAGRAM_BYTES:
            return
        body, signature = datagram[: _BODY.size], datagram[_BODY.size :]
        world_number, place, clock = _BODY.unpack(body)
        if world_number != self.world_number or place not in self.neighbours:
            return
        if clock <= self._heard.get(place, (-1, 0.0))[0]:
            return
        if hmac.compare_digest(signature, self._signature(body)):
            self._heard[place] = (clock, now)

    def suspects(self, now: float) -> tuple[int, ...]:
        """The places that have been silent since they were heard, or since this world began."""
        silent = {p for p, (_, at) in self._heard.items() if now - at > SILENT_SECONDS}
        if SILENT_SECONDS < now - self.began_at < UNHEARD_SECONDS:
            silent |= self.neighbours - self._heard.keys()
        return tuple(sorted(silent))

    def excuse(self, now: float) -> None:
        """Count all neighbours as heard now, because this worker itself did not run."""
        self._heard = {place: (clock, now) for place, (clock, _) in self._heard.items()}

    def _signature(self, body: bytes) -> bytes:
        return hmac.digest(self.secret, body, "sha256")[:_SIGNATURE_BYTES]


class Heartbeats:
    """A thread that sends and receives heartbeats, and reports each change of the suspects."""

    def __init__(
        self, address: str, suspected: Callable[[int, tuple[int, ...]], None], *, port: int = PORT
    ) -> None:
        """Listen at the pod's address; `suspected` is called with a world's number and places."""
        self._address = address
        self._port = port
        self._suspected = suspected
        self._lock = threading.Lock()
        self._ring = Ring(world_number=0, place=0, workers=1, secret=b"")  # no neighbours
        self._neighbours: tuple[str, ...] = ()
        self._followed = (0, False)  # a world, and whether all must have entered it by now
        self._closing = threading.Event()
        self._socket = _listen(address, port)
        self._thread = threading.Thread(target=self._run, name="spotrun-heartbeats", daemon=True)
        if self._socket is not None:
            self._thread.start()

    def follow(self, world: World) -> None:
        """Send in this world from now on; the addresses of its neighbours may come later."""
        with self._lock:
            followed, self._followed = self._followed, (world.number, world.switch)
            if self._followed != followed:
                self._ring = Ring.of(world, time.monotonic())
            self._neighbours = world.neighbours

    def close(self) -> None:
        """Stop sending and listening."""
        self._closing.set()
        if self._socket is not None:
            self._thread.join()
            self._socket.close()

    def _run(self) -> None:
        assert self._socket is not None, "there is no thread without a socket"
        reported: tuple[int, ...] = ()
        arrivals = select.poll()  # select() knows no descriptor above 1,023
        arrivals.register(self._socket, select.POLLIN)
        beat_at = turned_at = time.monotonic()
        while not self._closing.is_set():
            wait_seconds = max(beat_at - time.monotonic(), 0.0)
            arrivals.poll(1000 * wait_seconds)
            now = time.monotonic()
            with self._lock:
                ring, neighbours = self._ring, self._neighbours
            self._drain(self._socket, ring, now)
            if now - turned_at > _OWN_PAUSE_SECONDS:
                ring.excuse(now)
            turned_at = now
            if now >= beat_at:
                self._beat(self._socket, ring, neighbours)
                beat_at = now + BEAT_SECONDS
            found = ring.suspects(now)
            if found != reported:
                reported = found
                self._suspected(ring.world_number, found)

    def _beat(self, over: socket.socket, ring: Ring, neighbours: tuple[str, ...]) -> None:
        datagram = ring.beat(time.monotonic_ns())
        for neighbour in neighbours:
            with suppress(OSError):  # gone, or unreachable: others will notice it, too
                over.sendto(datagram, (neighbour, self._port))

    def _drain(self, over: socket.socket, ring: Ring, now: float) -> None:
        with suppress(BlockingIOError):  # nothing more to read
            while True:
                try:
                    ring.hear(over.recv(_DATAGRAM_BYTES + 1), now)
                except ConnectionRefusedError:  # an earlier datagram found no listener
                    continue


def _listen(address: str, port: int) -> socket.socket | None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_DGRAM)
    try:
        listening.bind((address, port))
    except OSError as error:
        listening.close()
        log.warning(
            "heartbeats are off, so the loss of a neighbour is found later: cannot listen at %s "
            "port "
            "%d: %s. Leave that port of the pod free.",
            address,
            port,
            error,
        )
        return None
    listening.setblocking(False)
    return listening
