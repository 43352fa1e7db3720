"""The offers that are compared: from flags, else from the pools. Pure."""

from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from pydantic import ValidationError

from spotrun.api.spec.schedule import Schedule
from spotrun.cli.report.break_even.facts import Hours, Market, own_node
from spotrun.money.ownership.comparison import Offer, Owned, Rented, Reserved
from spotrun.money.units import UsdPerHour
from spotrun.policies.lifecycle.schedule_windows import open_seconds

_A_MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
_WEEK = timedelta(weeks=1)


def offers(chosen: Namespace, compared: Market, hours: Hours) -> Iterator[Offer]:
    """Yield each way to have such nodes whose price is known."""
    spot = _price(chosen.spot, hours.spot_price or compared.price_of("Spot"))
    if spot is not None:
        lost = hours.lost_share
        if chosen.lost_work is not None:
            lost = Fraction(chosen.lost_work) / 100
        yield Rented("spot", spot, lost)
    on_demand = _price(chosen.on_demand, compared.price_of("OnDemand"))
    if on_demand is not None:
        yield Rented("on demand", on_demand)
    for years, declared in ((1, chosen.reserved_1y), (3, chosen.reserved_3y)):
        price = _price(declared, None)
        if price is not None:
            name = f"reserved {years} year{'s' if years > 1 else ''}"
            yield Reserved(name, price, years, Fraction(chosen.utilization))
    own = compared.own
    if own is not None:
        yield Owned(f"own ({own.metadata.name})", own_node(own))


def open_share(windows: list[str]) -> Fraction:
    """Return the share of all hours that is in windows, 1 without any; raises ValueError."""
    if not windows:
        return Fraction(1)
    try:
        schedule = Schedule.model_validate({"windows": tuple(map(_window, windows))})
    except ValidationError as error:
        raise ValueError(
            f"--window {error.errors()[0]['msg'].removeprefix('Value error, ')}: write it like "
            '"Mon-Fri 20:00-06:00 Europe/Berlin"'
        ) from None
    seconds = open_seconds(schedule, _A_MONDAY, _A_MONDAY + _WEEK)
    return Fraction(round(seconds), round(_WEEK.total_seconds()))


def _window(text: str) -> dict[str, object]:
    days, _, rest = text.strip().partition(" ")
    times, _, zone = rest.strip().partition(" ")
    start, _, end = times.partition("-")
    return {"days": (days,), "from": start, "to": end, **({"timeZone": zone} if zone else {})}


def _price(flag: Decimal | None, found: Fraction | None) -> UsdPerHour | None:
    if flag is not None:
        return UsdPerHour(flag)
    return UsdPerHour(found) if found is not None else None
