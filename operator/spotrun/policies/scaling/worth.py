"""The cost of a size for the same work, with the value of time, and whether a change pays off.

    step seconds x (workers x price + what an hour is worth)

The work is the same at every size, so a step stands for it. Where the user states no value of an
hour, it is derived from `minEfficiency`: the value at which that efficiency is just accepted.
"""

from dataclasses import dataclass

from spotrun.policies.scaling.benefit import Curve
from spotrun.policies.scaling.facts import SizingFacts

UNKNOWN_END_SECONDS = 6 * 3600.0
"""A training of unknown length is assumed to last for as long as its measurements are valid."""
_HOUR_SECONDS = 3600.0


@dataclass(frozen=True)
class Worth:
    """Prices by which sizes are compared: dollars, or worker-hours if no price is known."""

    usd_per_hour: float
    hour_usd: float

    @classmethod
    def stated(cls, facts: SizingFacts) -> "Worth | None":
        """Return the prices that the user states; None without them or a price to compare with."""
        if facts.hour_worth_usd is None:
            return None
        if facts.usd_per_hour is None:
            return cls(1.0, 0.0) if facts.hour_worth_usd == 0 else None
        return cls(facts.usd_per_hour, facts.hour_worth_usd)

    @classmethod
    def implied(cls, facts: SizingFacts, size: int) -> "Worth":
        """Return prices at which one more worker of this size's efficiency just pays."""
        price = cls.money(facts).usd_per_hour
        return cls(price, size * price * (1 / facts.min_efficiency - 1))

    @classmethod
    def money(cls, facts: SizingFacts) -> "Worth":
        """Return prices without time, for users who want to save."""
        return cls(1.0 if facts.usd_per_hour is None else facts.usd_per_hour, 0.0)

    def per_hour(self, size: int) -> float:
        """Return the cost of an hour at this size."""
        return size * self.usd_per_hour + self.hour_usd

    def per_step(self, curve: Curve, size: int) -> float:
        """Return the cost of a step at this size."""
        return curve.seconds(size) * self.per_hour(size) / _HOUR_SECONDS


@dataclass(frozen=True)
class Change:
    """The gain and the price of a change of the size, in the time for which it lasts."""

    gain: float
    price: float

    @property
    def net(self) -> float:
        """The gain less the price."""
        return self.gain - self.price

    @property
    def is_repaid(self) -> bool:
        """Whether the gain exceeds the price."""
        return self.net > 0


def change(facts: SizingFacts, curve: Curve, worth: Worth, before: int, after: int) -> Change:
    """Compare continuing unchanged with a short stall and continuing at another size."""
    if before == after:
        return Change(0.0, 0.0)
    horizon = horizon_seconds(facts)
    steps = horizon / curve.seconds(before)
    gain = steps * (worth.per_step(curve, before) - worth.per_step(curve, after))
    stall = facts.stall_seconds * worth.per_hour(before) / _HOUR_SECONDS
    added = max(after - before, 0) * worth.usd_per_hour
    return Change(gain, stall + added * facts.changeover_seconds / _HOUR_SECONDS)


def horizon_seconds(facts: SizingFacts) -> float:
    """Return the time until the training ends at its present pace, or the market changes next."""
    ends = [facts.life_seconds]
    if facts.remaining_samples is not None and facts.step is not None:
        ends.append(facts.remaining_samples / facts.step.samples_per_second)
    return min((end for end in ends if end is not None), default=UNKNOWN_END_SECONDS)
