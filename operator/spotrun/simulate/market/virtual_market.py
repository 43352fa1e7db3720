"""The virtual market: the nodes that pools offer, and their prices, at every moment.

Times are seconds since the replay began. Spot pools are recordings; for each of them there is an
on-demand pool of the same node, which stays until it is given back.
"""

import random
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from math import inf

from typing_extensions import override

from spotrun.api.capacitypool import Capacity
from spotrun.money.price_history import PriceHistory
from spotrun.money.units import UsdPerHour
from spotrun.simulate.market.trace import Trace
from spotrun.simulate.scenario import Rules

UNLIMITED = 1_000_000
SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)
"""The day that is assumed as the beginning of a recording without a date."""
_DRY_SPELL_SECONDS = 3600.0
_HAIR = 1e-6  # seconds: tolerance for times that rounding puts just before their tick


@dataclass(frozen=True)
class Prices:
    """Prices for recordings that have none."""

    spot_usd_per_hour: Decimal | None = None
    on_demand_usd_per_hour: Decimal | None = None


@dataclass(frozen=True)
class Offer:
    """The number of nodes that a pool offers in total, and their price."""

    nodes: int
    usd_per_hour: Decimal


class Pool(ABC):
    """Nodes of one kind in one zone."""

    def __init__(self, name: str, capacity: Capacity, trace: Trace) -> None:
        self.name, self.capacity, self.trace = name, capacity, trace

    @abstractmethod
    def offer(self, moment: float) -> Offer:
        """Return the offer at a moment."""

    @abstractmethod
    def next_change(self, moment: float) -> float:
        """Return when the offer changes next."""

    @property
    @abstractmethod
    def history(self) -> PriceHistory:
        """Return its price over time."""


class Recording:
    """A trace as the changes of an offer, in seconds since its first tick."""

    def __init__(self, trace: Trace, prices: Prices, rules: Rules) -> None:
        self.trace = trace
        self.on_demand_usd_per_hour = _on_demand_price(trace, prices)
        spot = _spot_prices(trace, prices)
        self.moments: list[float] = []
        self.offers: list[Offer] = []
        for tick, (nodes, price) in enumerate(zip(trace.available, spot, strict=True)):
            self._change(tick, Offer(_given(trace, nodes, rules), price))
        self._change(len(trace.available), Offer(0, self.offers[-1].usd_per_hour))

    def _change(self, tick: int, offer: Offer) -> None:
        if not self.offers or self.offers[-1] != offer:
            self.moments.append(tick * self.trace.gap_seconds)
            self.offers.append(offer)


class SpotPool(Pool):
    """A recording from some moment on; after its end it offers no nodes."""

    def __init__(self, name: str, recording: Recording, began: float, origin: datetime) -> None:
        super().__init__(name, Capacity.SPOT, recording.trace)
        self._recording, self._began, self._origin = recording, began, origin

    @override
    def offer(self, moment: float) -> Offer:
        return self._recording.offers[self._index(moment)]

    @override
    def next_change(self, moment: float) -> float:
        following = self._index(moment) + 1
        moments = self._recording.moments
        return moments[following] - self._began if following < len(moments) else inf

    @override
    @cached_property
    def history(self) -> PriceHistory:
        changes: list[tuple[datetime, UsdPerHour | None]] = []
        for moment, offer in zip(self._recording.moments, self._recording.offers, strict=True):
            price = UsdPerHour(offer.usd_per_hour)
            if not changes or changes[-1][1] != price:
                since = self._origin + timedelta(seconds=moment - self._began)
                changes.append((since, price))
        return PriceHistory(tuple(changes))

    def _index(self, moment: float) -> int:
        return bisect_right(self._recording.moments, self._began + moment + _HAIR) - 1


class OnDemandPool(Pool):
    """The same node on demand; for some hours it may offer no further nodes."""

    def __init__(self, name: str, recording: Recording, began: float, rules: Rules) -> None:
        super().__init__(name, Capacity.ON_DEMAND, recording.trace)
        self._price = recording.on_demand_usd_per_hour
        self._began, self._rate = began, rules.on_demand_dry_rate

    @override
    def offer(self, moment: float) -> Offer:
        return Offer(0 if self._is_dry(self._spell(moment)) else UNLIMITED, self._price)

    @override
    def next_change(self, moment: float) -> float:
        if not self._rate:
            return inf
        return (self._spell(moment) + 1) * _DRY_SPELL_SECONDS - self._began

    @override
    @cached_property
    def history(self) -> PriceHistory:
        return PriceHistory.constant(UsdPerHour(self._price))

    def _spell(self, moment: float) -> int:
        return int((self._began + moment + _HAIR) // _DRY_SPELL_SECONDS)

    def _is_dry(self, spell: int) -> bool:
        if not self._rate:
            return False
        # The same hours of a recording are dry, whatever the start of the replay.
        return random.Random(f"{self.name}/{spell}").random() < self._rate  # noqa: S311


@dataclass(frozen=True)
class VirtualMarket:
    """All pools, from a moment on."""

    origin: datetime
    tick_seconds: float
    pools: tuple[Pool, ...]

    @cached_property
    def by_name(self) -> dict[str, Pool]:
        """The pools by their names."""
        return {pool.name: pool for pool in self.pools}

    @cached_property
    def spot(self) -> tuple[Pool, ...]:
        """The pools whose nodes can be taken away."""
        return tuple(pool for pool in self.pools if pool.capacity is Capacity.SPOT)

    @cached_property
    def on_demand(self) -> tuple[Pool, ...]:
        """The pools whose nodes stay."""
        return tuple(pool for pool in self.pools if pool.capacity is not Capacity.SPOT)

    def time(self, moment: float) -> datetime:
        """Return a moment as a date and time."""
        return self.origin + timedelta(seconds=moment)


class Recordings:
    """Several traces, replayed together from any tick on.

    Ticks are those of the first trace. The others begin at the same time after their own first
    tick; dates are not compared, because recordings of different years may be replayed together.
    """

    def __init__(self, traces: Sequence[Trace], rules: Rules, prices: Prices) -> None:
        self._recordings = [Recording(trace, prices, rules) for trace in traces]
        self._rules = rules
        self._spot_names = _distinct(_name(trace, "spot") for trace in traces)

    @property
    def tick_seconds(self) -> float:
        """The length of a tick of the first trace."""
        return self._recordings[0].trace.gap_seconds

    @property
    def seconds(self) -> float:
        """The length of the shortest trace."""
        return min(recording.trace.seconds for recording in self._recordings)

    @property
    def on_demand_usd_per_hour(self) -> Decimal:
        """The price of the cheapest on-demand node."""
        return min(recording.on_demand_usd_per_hour for recording in self._recordings)

    def market(self, start_tick: int) -> VirtualMarket:
        """Return the market as it was from a tick on."""
        first = self._recordings[0].trace
        began = start_tick * first.gap_seconds
        origin = (first.start or SOME_DAY) + timedelta(seconds=began)
        spot = [
            SpotPool(name, recording, began, origin)
            for name, recording in zip(self._spot_names, self._recordings, strict=True)
        ]
        on_demand: dict[str, Pool] = {}
        for recording in self._recordings:
            name = _name(recording.trace, "on-demand")
            on_demand.setdefault(name, OnDemandPool(name, recording, began, self._rules))
        ticks = min(recording.trace.gap_seconds for recording in self._recordings)
        return VirtualMarket(origin, ticks, (*spot, *on_demand.values()))


def _given(trace: Trace, nodes: int, rules: Rules) -> int:
    """Return the nodes offered; more than were probed are unknown, so the rules decide."""
    return UNLIMITED if rules.assume_capacity and nodes == trace.capacity_probed else nodes


def _spot_prices(trace: Trace, prices: Prices) -> Sequence[Decimal]:
    given = trace.spot_usd_per_hour
    if isinstance(given, tuple):
        return given
    price = prices.spot_usd_per_hour if given is None else given
    if price is None:
        raise ValueError(f"{trace.name} has no spot price: give one with --spot-price")
    return [price] * len(trace.available)


def _on_demand_price(trace: Trace, prices: Prices) -> Decimal:
    given = trace.on_demand_usd_per_hour
    price = prices.on_demand_usd_per_hour if given is None else given
    if price is None:
        raise ValueError(f"{trace.name} has no on-demand price: give one with --on-demand-price")
    return price


def _name(trace: Trace, capacity: str) -> str:
    return re.sub(r"[^a-z0-9.-]+", "-", f"{trace.instance_type}-{trace.zone}-{capacity}".lower())


def _distinct(names: Iterable[str]) -> list[str]:
    """Add numbers to equal names of recordings, from the second one on."""
    given: list[str] = []
    for name in names:
        again = sum(one == name or one.startswith(f"{name}-") for one in given)
        given.append(f"{name}-{again + 1}" if again else name)
    return given
