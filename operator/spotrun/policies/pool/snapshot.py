"""One pool and all observations of it, from which its next state is concluded."""

from dataclasses import dataclass, field
from datetime import datetime

from spotrun.api.capacitypool import CapacityPoolSpec
from spotrun.money.price_history import Quote
from spotrun.policies.pool.lifetimes import Life
from spotrun.state.stored.pools.pool_state import PoolNode, PoolState


@dataclass(frozen=True)
class PoolSnapshot:
    """A pool and the observations of it; events from before `status.as_of` are ignored."""

    name: str
    uid: str
    version: str
    spec: CapacityPoolSpec
    status: PoolState = field(default_factory=PoolState)
    is_ours: bool = False  # the operator discovered it, and no user has changed it since
    lives: tuple[Life, ...] = ()  # of its nodes, and of those that went away recently
    workers: int | None = 0  # of all jobs; None: not all of them are seen
    node: PoolNode | None = None  # what one of its nodes has
    quote: Quote | None = None
    on_demand: Quote | None = None
    interruptions_per_hour: float | None = None  # expected of a node; None: not for this pool
    provisioned: tuple[tuple[datetime, float], ...] = ()  # when a node came, after which seconds
    waiting: tuple[datetime, ...] = ()  # since when workers wait that would fit an empty node
    turned_down: tuple[datetime, ...] = ()  # of these, workers that autoscalers give no node
    is_asked: bool = False  # some worker waits for it, whether it would fit or not
    written_seconds: float = float("inf")  # since status was last written

    @property
    def nodes(self) -> tuple[datetime, ...]:
        """The time at which each of the present nodes was created."""
        return tuple(life.born_at for life in self.lives if life.ended_at is None)

    def is_news(self, moment: datetime | None) -> bool:
        """Whether something happened after the last status, which contains all before."""
        if moment is None:
            return False
        return self.status.as_of is None or moment > self.status.as_of
