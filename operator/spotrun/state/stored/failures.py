"""The failures of a job so far, and the pauses that follow from them, as decisions carry them."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Workers that failed before they trained, in one world."""

    workers: tuple[int, ...]
    world: int | None = None  # the world that they were in, or prepared for; None: none


@dataclass(frozen=True, slots=True)
class JoiningWorkers:
    """Workers that failed before they trained, while others trained: that ends no job."""

    failures: int
    retry_at: datetime
    held: tuple[HeldBack, ...] = ()

    @property
    def worlds(self) -> dict[int, int | None]:
        """The world in which each held-back worker failed."""
        return {worker: one.world for one in self.held for worker in one.workers}


@dataclass(frozen=True, slots=True)
class TriedSizes:
    """The sizes at which a script without `Run` trained, and one that it may refuse, or refuses."""

    trained: tuple[int, ...] = ()  # the newest is the last
    suspect: int | None = None  # where its last start failed before a step; it never trained there
    error: str | None = None  # the message of that failure, without numbers
    held: int | None = None  # the size that the job keeps, because the suspect is refused
    template: str | None = None  # the hash of the template for which this is known


NO_SIZES = TriedSizes()


@dataclass(frozen=True, slots=True)
class Restarts:
    """Failures, and the reaction to them."""

    failures: int | None = None
    counted_since: datetime | None = None
    retry_at: datetime | None = None
    last_world: int | None = None
    last_reason: str | None = None
    last_exit_code: int | None = None
    last_message: str | None = None
    last_follows: bool = False  # from a peer's end or silence, as far as known
    blamed: tuple[str, ...] = ()
    joining_workers: JoiningWorkers | None = None
    sizes: TriedSizes = NO_SIZES

    @property
    def count(self) -> int:
        """The number of counted failures; 0 if nothing has failed yet."""
        return self.failures or 0


NO_RESTARTS = Restarts()


@dataclass(frozen=True, slots=True)
class Rejections:
    """Workers that were bound to a node and rejected there, which is not a failure."""

    count: int
    worker: int
    retry_at: datetime
    message: str
    nodes: tuple[str, ...] = ()
