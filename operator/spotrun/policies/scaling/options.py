"""The sizes from which a job's next one is chosen, and what each would bring."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from spotrun.api.names import ScalingReason
from spotrun.policies.scaling.benefit import Curve, Rounds, efficient, thinned
from spotrun.policies.scaling.facts import SizingFacts
from spotrun.policies.scaling.size_history import rejected_from
from spotrun.policies.scaling.worth import Change, Worth, change
from spotrun.state.stored.scaling import ScalingState


@dataclass(frozen=True)
class Wish:
    """A size, and the reason for it."""

    size: int
    reason: ScalingReason
    why: str = ""
    numbers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Poor:
    """The benefit of the last added workers, as measured with and without them."""

    workers: int  # without them
    efficiency: float

    @property
    def why(self) -> str:
        """The reason in words."""
        return f"more workers than {self.workers} brought {self.efficiency:.2f} of what they add"


@dataclass(frozen=True)
class Options:
    """The sizes to choose from."""

    facts: SizingFacts
    curve: Curve
    base: int  # the size that trains
    sizes: tuple[int, ...]  # those at which a step gets shorter, and the one that trains
    tried: int | None  # from this size on a growth brought too little

    @property
    def larger(self) -> tuple[int, ...]:
        """The sizes to which the job may grow."""
        prudent = self.curve.prudent
        most = min(prudent, self.tried - 1 if self.tried else prudent)
        return tuple(size for size in self.sizes if self.base < size <= most)

    @property
    def smaller(self) -> tuple[int, ...]:
        """The sizes to which the job may shrink."""
        return tuple(size for size in self.sizes if size < self.base)

    @cached_property
    def fit(self) -> frozenset[int]:
        """The sizes that bring enough compared with every smaller one."""
        return frozenset(efficient(self.curve, self.sizes, self.facts.min_efficiency))

    @cached_property
    def poor(self) -> Poor | None:
        """The benefit of the last added workers, if it is less than required."""
        known = [point.workers for point in self.curve.points]
        if self.base not in known:
            return None
        compared = [n for n in known if n < self.base and n in self.sizes]
        found = (Poor(n, self.curve.efficiency(n, self.base)) for n in reversed(compared))
        least = self.facts.min_efficiency
        return next((one for one in found if one.efficiency < least), None)

    def change(self, worth: Worth, size: int) -> Change:
        """Return the gain and the price of a change to that size."""
        return change(self.facts, self.curve, worth, self.base, size)

    def repaid(self, worth: Worth, sizes: Iterable[int]) -> list[int]:
        """Return the sizes for which a change pays."""
        return [size for size in sizes if self.change(worth, size).is_repaid]


def options(facts: SizingFacts, memory: ScalingState, curve: Curve) -> Options:
    """Select the sizes that are worth considering."""
    base, measured = facts.running, tuple(point.workers for point in curve.points)
    useful = _useful(facts.sizes, curve.rounds)
    sizes = thinned(useful, (facts.wanted, *measured))
    if base not in sizes:
        sizes = tuple(sorted((*sizes, base)))
    tried = rejected_from(memory)
    return Options(facts, curve, base, sizes, tried.workers if tried is not None else None)


@lru_cache(maxsize=1024)
def _useful(sizes: tuple[int, ...], rounds: Rounds) -> tuple[int, ...]:
    return rounds.shorter(sizes)
