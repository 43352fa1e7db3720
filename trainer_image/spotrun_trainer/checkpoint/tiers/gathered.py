"""A checkpoint of the local tier as one place to read from: each part from a worker that has it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from typing_extensions import override

from spotrun_trainer.checkpoint.format.manifest import Marker, write_marker
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.storage import MARKER, OpenFile
from spotrun_trainer.checkpoint.places.directory import Place
from spotrun_trainer.checkpoint.tiers.client import opened_of, read_manifest_of
from spotrun_trainer.checkpoint.tiers.newest import Found
from spotrun_trainer.checkpoint.tiers.settings import Endpoint


class Gathered(Place):
    """The parts that a worker has itself, and those that it reads from other workers.

    The marker is made of the hashes that all processes have agreed on, so no other part is
    accepted.
    """

    def __init__(
        self, own: Place, worker: int, found: Found, endpoints: Sequence[Endpoint], secret: str
    ) -> None:
        super().__init__(own.root)
        self._worker = worker
        self._found = found
        self._endpoints = endpoints
        self._secret = secret

    @override
    def where(self, name: Name | None = None, file: str = "") -> str:
        rank = _rank_of(file)
        if name is None or rank is None or self._is_here(rank):
            return super().where(name, file)
        return f"{name}/{file} in the local tier at {self._holder(rank).address}"

    @override
    def read(self, name: Name, file: str) -> bytes:
        if file == MARKER:
            return write_marker(Marker(self._found.attempt, self._found.manifests))
        rank = _rank_of(file)
        if rank is None or self._is_here(rank):
            return super().read(name, file)
        return read_manifest_of(self._holder(rank).address, self._secret, name, rank)

    @override
    @contextmanager
    def opened(
        self, name: Name, file: str, reads: Sequence[tuple[int, int]] = ()
    ) -> Iterator[OpenFile]:
        rank = _rank_of(file)
        if rank is None or self._is_here(rank):
            with super().opened(name, file, reads) as here:
                yield here
            return
        address = self._holder(rank).address
        with opened_of(address, self._secret, name, rank, reads) as there:
            yield there

    def _is_here(self, rank: int) -> bool:
        return self._worker in self._found.holders[rank]

    def _holder(self, rank: int) -> Endpoint:
        """Return a worker that has the part; several readers take different workers."""
        holders = sorted(self._found.holders[rank])
        return self._endpoints[holders[self._worker % len(holders)]]


def _rank_of(file: str) -> int | None:
    number = file.removeprefix("rank-").partition(".")[0]
    return int(number) if file.startswith("rank-") and number.isdecimal() else None
