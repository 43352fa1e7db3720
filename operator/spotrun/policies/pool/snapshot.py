"""One pool and all that was seen of it, from which its next state is concluded."""

from dataclasses import dataclass, field
from datetime import datetime

from spotrun.api.capacitypool import CapacityPoolSpec
from spotrun.money.price_history import Quote
from spotrun.policies.pool.lifetimes import Life
from spotrun.state.stored.pools.pool_state import PoolNode, PoolState


@dataclass(frozen=True)
class PoolSnapshot:
    """A pool and what was seen of it; events from before `status.as_of` do no harm."""

    name: str
    uid: str
    version: str
    spec: CapacityPoolSpec
    status: PoolState = field(default_factory=PoolState)
    is_ours: bool = False  # discovered, and not changed by anybody since
    lives: tuple[Life, ...] = ()  # of its nodes, and of those that went away lately
    workers: int | None = 0  # of all jobs; None: not all of them are seen
    node: PoolNode | None = None  # what one of its nodes has
    quote: Quote | None = None
    on_demand: Quote | None = None
    interruptions_per_hour: float | None = None  # expected of a node; None: not of this one
    provisioned: tuple[tuple[datetime, float], ...] = ()  # when, and for how long it was waited
    waiting: tuple[datetime, ...] = ()  # since when workers wait that would fit an empty node
    turned_down: tuple[datetime, ...] = ()  # of these, who gets no node from an autoscaler
    is_asked: bool = False  # some worker waits for it, whether it would fit or not
    written_seconds: float = float("inf")  # since status was last written

    @property
    def nodes(self) -> tuple[datetime, ...]:
        """The time at which each of the present nodes was made."""
        return tuple(life.born_at for life in self.lives if life.ended_at is None)

    def is_news(self, moment: datetime | None) -> bool:
        """Whether something happened after the last status, which holds all before."""
        if moment is None:
            return False
        return self.status.as_of is None or moment > self.status.as_of
