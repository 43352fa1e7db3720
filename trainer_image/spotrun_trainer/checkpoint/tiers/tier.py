"""The local tier of one process: what is saved, which steps count, and what a restart loads."""

import json
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

from typing_extensions import override

from spotrun_trainer.checkpoint.checkpoints import Checkpoints
from spotrun_trainer.checkpoint.errors import CheckpointError
from spotrun_trainer.checkpoint.format.manifest import data_file
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.reading.reader import Reader, load
from spotrun_trainer.checkpoint.format.reading.together import BY_ITSELF, Readers
from spotrun_trainer.checkpoint.format.storage import Told
from spotrun_trainer.checkpoint.saver import Saved
from spotrun_trainer.checkpoint.storage_retries import patiently
from spotrun_trainer.checkpoint.tiers import client
from spotrun_trainer.checkpoint.tiers.channel import Channel
from spotrun_trainer.checkpoint.tiers.folder import Folder
from spotrun_trainer.checkpoint.tiers.gathered import Gathered
from spotrun_trainer.checkpoint.tiers.neighbour import keepers
from spotrun_trainer.checkpoint.tiers.newest import Found, Held, newest
from spotrun_trainer.checkpoint.tiers.settings import Endpoint, Settings, read_endpoint
from spotrun_trainer.state.flatten import Flat
from spotrun_trainer.state.tracked import Tracked
from spotrun_trainer.telemetry.console import say


class Schedule(Protocol):
    """The times at which to save."""

    def is_due(self, step: int) -> bool:
        """Whether to save at the end of this step."""

    def begun(self) -> None:
        """Note that a save has begun."""

    def hurry(self) -> None:
        """Make the next save due at once."""

    def step_took(self, seconds: float, *, is_saving: bool) -> None:
        """Note the length of a step."""

    def saved(self, saved: Saved) -> None:
        """Note that a save is done."""


class Vote(NamedTuple):
    """The local tier's part of a process's vote; a sum over all above 0 means that one says so."""

    due: int = 0
    busy: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Peers:
    """The workers of a world, as each of its processes knows them."""

    endpoints: tuple[Endpoint, ...]  # of workers, in the order of their first ranks
    worker: int  # of this process
    secret: str

    @property
    def keeper(self) -> Endpoint | None:
        """The worker that keeps the copy of this one's parts."""
        keeper = keepers([one.node for one in self.endpoints])[self.worker]
        return None if keeper is None else self.endpoints[keeper]


class Kept(Folder):
    """The folder, as a save writes a part into it: a copy goes to another node.

    Errors are CheckpointErrors with a text for the log: training continues without the copy.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.complete: Name | None = None  # not deleted before a newer one is complete
        self.peers: Peers | None = None
        self._sending: Channel | None = None

    def cut(self) -> None:
        """Abort a copy that is being sent: its receiver may be lost."""
        if (sending := self._sending) is not None:
            with suppress(OSError):
                sending.connection.shutdown(socket.SHUT_RDWR)

    @override
    def make(self, name: Name) -> None:
        self.keep({name} if self.complete is None else {name, self.complete})
        super().make(name)

    @override
    def write_data(self, name: Name, file: str, content: Sequence[memoryview], told: Told) -> None:
        try:
            super().write_data(name, file, content, told)
        except OSError as error:
            raise CheckpointError(
                f"{name} is not kept in {self.root}: {error.strerror}; training continues, and "
                "checkpoints are saved in their durable place"
            ) from error

    @override
    def write(self, name: Name, file: str, content: bytes, rank: int) -> None:
        super().write(name, file, content, rank)
        keeper = self.peers.keeper if self.peers is not None else None
        if self.peers is None or keeper is None:
            return
        copy = client.Copy(name, rank, self.path(name, data_file(rank)), content)
        try:
            with client.connected(keeper.address, self.peers.secret) as self._sending:
                client.put(self._sending, keeper.address, copy)
        except OSError as error:
            raise CheckpointError(
                f"{name} has no copy on node {keeper.node}: its agent at {keeper.address} did not "
                f"accept it: {error.strerror}; training continues, and checkpoints are saved in "
                "their durable place"
            ) from error
        finally:
            self._sending = None


class LocalTier:
    """The saves of one process into the local tier.

    All processes begin a save together, and once none of them says in its vote that it is busy or
    has failed, all parts and their copies exist: the step is `complete`, and the previous one is
    deleted with the next save. So a folder has at most two steps.
    """

    def __init__(
        self, settings: Settings, schedule: Schedule, *, shard: int, shards: int, stages: int
    ) -> None:
        self._settings = settings
        self._schedule = schedule
        self._folder = Kept(settings)
        self._parts = (shard, shards, stages)
        self._checkpoints = Checkpoints(
            self._folder, keep=1, shard=shard, shards=shards, stages=stages, is_shared=False
        )
        self._begun: Name | None = None
        self._is_busy = self._has_failed = False
        self._said = ""

    @property
    def complete(self) -> Name | None:
        """The newest step that all processes have, with its copies."""
        return self._folder.complete

    @complete.setter
    def complete(self, name: Name | None) -> None:
        self._folder.complete = name

    def introduce(self) -> str:
        """Return what other processes need to know about this worker and its last step."""
        complete = None if self.complete is None else str(self.complete)
        return json.dumps({**asdict(self._settings.endpoint), "complete": complete})

    def meet(
        self, said: Sequence[str], rank: int, local_size: int, *, secret: str, attempt: str
    ) -> None:
        """Enter a world, with what all processes say about their workers, by rank.

        A save in flight in the last world does not count, and the next save is due at once. A save
        may have ended with the last step of that world, when only some processes saw the votes: all
        accept what these know, or each would delete what another one keeps.
        """
        contents = [json.loads(one) for one in said]
        workers = tuple(map(read_endpoint, contents[::local_size]))
        known = [Name.parse(name) for one in contents if (name := one.get("complete"))]
        self.complete = max(known, default=None)
        self._folder.cut()
        self._folder.peers = Peers(workers, rank // local_size, secret)
        self._checkpoints.enter(attempt)
        self._begun, self._is_busy, self._has_failed = None, False, False
        self._schedule.hurry()

    def vote(self, step: int, *, decides: bool) -> Vote:
        """Return this process's vote at the end of a step; one process decides when to save."""
        self._look()
        is_due = decides and self._folder.peers is not None and self._begun is None
        is_busy = self._is_busy or self._checkpoints.is_writing  # also a save of the last world
        return Vote(
            int(is_due and self._schedule.is_due(step)), int(is_busy), int(self._has_failed)
        )

    def conclude(self, votes: Vote) -> Name | None:
        """Return the step that all processes have by these votes, if it is a new one.

        After that `is_wanted` says whether another save begins.
        """
        if self._begun is None or votes.busy:
            return None
        name, self._begun, self._has_failed = self._begun, None, False
        if votes.failed:
            return None
        self.complete = name
        return name

    def is_wanted(self, votes: Vote) -> bool:
        """Whether all processes begin to save now."""
        return votes.due > 0 and not votes.busy and self._begun is None

    def save(
        self,
        name: str,
        flat: Flat,
        *,
        rank: int,
        size: int,
        extra: Mapping[str, Any],
        parameters: Mapping[str, Sequence[Sequence[str]]],
    ) -> None:
        """Begin to save, in all processes."""
        self._begun, self._is_busy, self._has_failed = Name.parse(name), True, False
        self._checkpoints.save(name, flat, rank=rank, size=size, extra=extra, parameters=parameters)
        self._schedule.begun()

    def before_change(self) -> None:
        """Return once tensors may change."""
        self._checkpoints.before_change()

    def step_took(self, seconds: float) -> None:
        """Note the length of a step, which shows the cost of a save beside it."""
        self._schedule.step_took(seconds, is_saving=self._is_busy)

    def held(self) -> str:
        """Return what this worker's folder has, for the other processes."""
        held = [{**asdict(one), "name": str(one.name)} for one in self._folder.held()]
        return json.dumps(held)

    def find(self, said: Sequence[str], at_least: str) -> Found | None:
        """Return the newest step that all workers have together; `said` is `held` of each rank."""
        every = len(said) // len(self._peers.endpoints)  # processes of a worker see the same folder
        folders = [
            [_read_held(each) for each in json.loads(one)] if worker.address else []
            for worker, one in zip(self._peers.endpoints, said[::every], strict=True)
        ]
        return newest(folders, at_least=Name.parse(at_least) if at_least else None)

    def load(
        self, found: Found, tracked: Tracked, *, rank: int, size: int, readers: Readers = BY_ITSELF
    ) -> dict[str, Any]:
        """Load a step, each part from a worker that has it; raises as `Checkpoints.load` does."""
        peers, (shard, shards, stages) = self._peers, self._parts
        place = Gathered(self._folder, peers.worker, found, peers.endpoints, peers.secret)
        reader = Reader(shard, shards, rank, size, stages, readers)
        if readers is BY_ITSELF:
            extra = patiently(lambda: load(place, found.name, tracked, reader))
        else:  # they retry by themselves, all for the same file
            extra = load(place, found.name, tracked, reader)
        self.complete = found.name
        return extra

    def forget(self) -> None:
        """Delete everything, because another state counts from now on."""
        self.complete = None
        self._folder.keep(())

    def close(self) -> None:
        """End the thread that saves."""
        self._checkpoints.close()

    @property
    def _peers(self) -> Peers:
        assert self._folder.peers is not None, "they were met"
        return self._folder.peers

    def _look(self) -> None:
        """Note the end of a save."""
        try:
            saved = self._checkpoints.finished()
        except CheckpointError as error:  # training is unharmed, and later saves continue
            if self._begun is not None:  # else it belonged to a world that is over
                self._is_busy, self._has_failed = False, True
                self._say_once(str(error))
            return
        if saved is not None and self._begun is not None and saved.name == str(self._begun):
            self._is_busy = False
            self._schedule.saved(saved)

    def _say_once(self, sentence: str) -> None:
        what = sentence.partition(" ")[2]  # the sentence without the step
        if what != self._said:
            self._said = what
            say(f"in the local tier {sentence}")


def _read_held(content: object) -> Held:
    match content:
        case {
            "name": str(name),
            "attempt": str(attempt),
            "rank": int(rank),
            "size": int(size),
            "sha256": str(sha256),
        }:
            return Held(Name.parse(name), attempt, rank, size, sha256)
    raise ValueError(f"this is not a part of a checkpoint: {str(content)[:80]}")
