"""Answers to the workers of a job: a pure function of the stored status and the job's pods."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from spotrun.api.names import Phase
from spotrun.state.job_state import JobState
from spotrun.state.view import FINISHED, left_out
from spotrun.wire import Answer, How, Metric, Notice, Orders, Profile, Stage, World, write_answer

_VERSION_BYTES = 12  # a short hash is enough: its readers get the content itself


@dataclass(frozen=True)
class Peer:
    """A worker's pod, with the address at which other workers reach it."""

    pod: str
    uid: str
    address: str | None = None  # None until it has a node


@dataclass(frozen=True)
class Published:
    """A job as it is stored, and its pods by worker id."""

    namespace: str
    name: str
    uid: str
    status: JobState
    peers: Mapping[int, Peer]
    processes: int  # of each worker
    cost_labels: Mapping[str, str] = field(default_factory=dict)  # by which costs are grouped
    placed: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by pool and capacity
    budget_usd: Decimal | None = None
    notice: Notice | None = None  # the earliest one that a node of its world goes away
    metrics: tuple[Metric, ...] = ()  # the newest values that its script has reported
    saves: bool = False  # whether there is a place for checkpoints
    stages: tuple[Stage, ...] = ()  # of its training, in their order
    profile: Profile | None = None  # the one that a user has asked for last


class Answers:
    """The answers to all workers of one job; their common part is made and hashed only once."""

    def __init__(self, job: Published, key: bytes) -> None:
        """Prepare the answers; the secrets of all worlds are derived from `key`."""
        self.worker_ids = {peer.pod: worker_id for worker_id, peer in job.peers.items()}
        self._job = job
        world, saving = job.status.world, job.status.saving
        is_over = job.status.phase in FINISHED
        members = world.members if not is_over else ()
        self._places = {worker_id: place for place, worker_id in enumerate(members)}
        self._addresses = tuple(
            job.peers[worker_id].address if worker_id in job.peers else None
            for worker_id in members
        )
        self._leaving = _leaving(job.status) if members else frozenset()
        self._left_out = frozenset() if is_over else left_out(job.status)
        self._common = Answer(
            version="",
            phase=(job.status.phase or Phase.PENDING).value,
            orders=Orders(job.status.orders.checkpoint, _stop(job.status), job.profile),
            stop_at=_stop_at(job.status),
            acknowledged=job.status.checkpoint.name if job.status.checkpoint else None,
            world_number=world.number,
            world=self._shared_world(key) if members else None,
            notice=job.notice if members else None,
            planned=world.is_planned,
            save_every=saving.every_seconds if saving is not None else None,
            keep=saving.keep if saving is not None else None,
        )
        self._hash = hashlib.blake2b(write_answer(self._common), digest_size=_VERSION_BYTES)

    @property
    def content(self) -> object:
        """A value that is equal if all workers get the same answers."""
        shared = (self._hash.digest(), self._addresses, tuple(self._places))
        return *shared, self._leaving, self._left_out

    def answer(self, worker_id: int) -> Answer:
        """Return the answer to one worker."""
        world, is_left_out = self._world(worker_id), worker_id in self._left_out
        version = self._version(world, is_left_out=is_left_out)
        return replace(self._common, version=version, world=world, left_out=is_left_out)

    def version(self, worker_id: int) -> str:
        """Return the version of that answer, which is the same on every replica."""
        return self._version(self._world(worker_id), is_left_out=worker_id in self._left_out)

    def _version(self, world: World | None, *, is_left_out: bool) -> str:
        own = self._hash.copy()
        if world is not None:
            own.update(repr((world.rank, world.processes, *world.neighbours)).encode())
        if is_left_out:
            own.update(b"left out")
        return own.hexdigest()

    def _world(self, worker_id: int) -> World | None:
        shared = self._common.world
        if shared is None:
            return None
        place = self._places.get(worker_id)
        if place is not None:
            rank = place * self._job.processes
            return replace(shared, rank=rank, neighbours=self._neighbours(place))
        if worker_id in self._leaving:
            # It trains until the others switch; a world with no process of its own tells it so.
            return replace(shared, rank=shared.size, processes=0, store=None, secret="")
        return None

    def _shared_world(self, key: bytes) -> World:
        stages, world = self._job.stages, self._job.status.world
        trained = self._job.status.restarts.sizes.trained
        return World(
            number=world.number,
            rank=0,
            size=len(self._places) * self._job.processes,
            processes=self._job.processes,
            store=world.store,
            secret=world_secret(key, self._job.uid, world.number),
            neighbours=(),
            how=How(world.entry.value),
            switch=world.is_active,
            restore=world.restore,
            planned=world.is_planned,
            stage=stages[min(world.stage, len(stages) - 1)] if stages else None,
            trained=trained[-1] * self._job.processes if trained else 0,
        )

    def _neighbours(self, place: int) -> tuple[str, ...]:
        """Return the previous and the next worker in the ring, if they can be reached."""
        count = len(self._addresses)
        around = dict.fromkeys(((place - 1) % count, (place + 1) % count))
        found = (self._addresses[other] for other in around if other != place)
        return tuple(address for address in found if address is not None)


def world_secret(key: bytes, uid: str, world_number: int) -> str:
    """Return the world's secret: equal on every replica and after restarts, unknown outside it."""
    return hmac.new(key, f"{uid}/{world_number}".encode(), hashlib.sha256).hexdigest()


def _stop(status: JobState) -> int:
    """Return how many stages of the training must end."""
    stage = status.stage
    is_ending = status.stop_when.decided_at is not None
    if stage is None:
        return int(is_ending)
    return stage.index + int(is_ending or stage.ends_since is not None)


def _stop_at(status: JobState) -> float | None:
    """Return the time to stop at; it changes once a minute, with the cost, and ends every poll."""
    return status.cost.stop_at.timestamp() if status.cost.stop_at is not None else None


def _leaving(status: JobState) -> frozenset[int]:
    """Return the workers that train while a world without them is prepared."""
    world = status.world
    return frozenset() if world.is_active else world.holder_set - world.member_set
