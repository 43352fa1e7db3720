"""The comparison as a table, and as data for programs. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from spotrun.cli.text.look import Look
from spotrun.cli.text.table import Column, table
from spotrun.money.ownership.comparison import (
    Crossing,
    Offer,
    Owned,
    Rented,
    Use,
    cheapest,
    crossings,
    hours_to_pay_off,
)
from spotrun.money.ownership.own_node import HOURS_PER_MONTH
from spotrun.money.units import Usd

_SHOWN = (1, 6, 12, 24, 36, 48, 60, 84, 120, 180, 240)


@dataclass(frozen=True)
class Compared:
    """The use, and the offers that were compared for it."""

    kind: str
    source: str  # of the hours
    use: Use
    offers: tuple[Offer, ...]
    months: int


def screen(one: Compared, look: Look) -> list[str]:
    """Return the lines to print."""
    hours = _hours(one.use.hours_per_month)
    return [
        f"{hours} node-hours of useful work a month ({one.source}), nodes with {one.kind}",
        "",
        *_totals(one, look),
        "",
        *_sentences(one),
    ]


def as_data(one: Compared) -> dict[str, object]:
    """Return the same for programs; amounts are text, in USD."""
    return {
        "nodes": one.kind,
        "source": one.source,
        "hoursPerMonth": f"{float(one.use.hours_per_month):.2f}",
        "offers": [
            {
                "name": offer.name,
                "usdPerHour": str(offer.price.amount),
                "nodes": offer.nodes(one.use),
                "totalUsd": {str(n): _cents(offer.total(one.use, n)) for n in _shown(one.months)},
            }
            for offer in one.offers
        ],
        "cheapest": [
            {"name": span.name, "fromMonth": span.first, "toMonth": span.last}
            for span in cheapest(one.offers, one.use, one.months)
        ],
        "paidOff": [
            {"name": found.name, "than": found.than, "fromMonth": found.month}
            for found in crossings(one.offers, one.use, one.months)
        ],
        "hoursToPayOff": [
            {"name": own.name, "than": rented.name, "hoursPerNodeAndMonth": _number(hours)}
            for own, rented, hours in _hours_to_pay_off(one)
        ],
    }


def _totals(one: Compared, look: Look) -> list[str]:
    months = _shown(one.months)
    columns = (
        Column("OFFER", is_kept=True),
        Column("$/HOUR", is_number=True, is_kept=True),
        Column("NODES", is_number=True),
        *(Column(f"{n} MONTH{'S' if n > 1 else ''}($)", is_number=True) for n in months),
    )
    rows = [
        [
            offer.name,
            _cents(Usd(offer.price.exact)),
            "-" if (nodes := offer.nodes(one.use)) is None else str(nodes),
            *(f"{round(offer.total(one.use, n).exact):,}" for n in months),
        ]
        for offer in one.offers
    ]
    return table(columns, rows, look)


def _sentences(one: Compared) -> Iterator[str]:
    spans = cheapest(one.offers, one.use, one.months)
    said = [f"{span.name} {_from_to(span.first, span.last, one.months)}" for span in spans]
    yield f"Cheapest in total: {', '.join(said)}."
    for found in crossings(one.offers, one.use, one.months):
        yield _crossing(found, one.months)
    for own, rented, hours in _hours_to_pay_off(one):
        if hours is None:
            yield f"{own.name} is never cheaper than {rented.name} over its years of use."
        else:
            share = f"{float(hours / HOURS_PER_MONTH):.0%}"
            yield (
                f"{own.name} is cheaper than {rented.name} over its years of use from "
                f"{_hours(hours)} hours of a node a month on ({share} of all)."
            )


def _crossing(found: Crossing, months: int) -> str:
    if found.month is None:
        return f"{found.name} does not pay off against {found.than} within {months} months."
    return f"{found.name} has paid off against {found.than} from month {found.month} on."


def _from_to(first: int, last: int, months: int) -> str:
    if last == months:
        return f"from month {first} on" if first > 1 else "at all times"
    return f"in month {first}" if first == last else f"in months {first} to {last}"


def _hours_to_pay_off(one: Compared) -> Iterator[tuple[Owned, Rented, Fraction | None]]:
    for own in one.offers:
        for rented in one.offers:
            if isinstance(own, Owned) and isinstance(rented, Rented):
                yield own, rented, hours_to_pay_off(own.node, rented, one.use.open_share)


def _shown(months: int) -> list[int]:
    return sorted({*(n for n in _SHOWN if n <= months), months})


def _cents(usd: Usd) -> str:
    return f"{float(usd.exact):.2f}"


def _number(hours: Fraction | None) -> str | None:
    return None if hours is None else f"{float(hours):.2f}"


def _hours(hours: Fraction) -> str:
    return f"{round(hours):,}"
