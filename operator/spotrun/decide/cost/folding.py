"""Keeping the charges short: older prices are added up, and workers share what they can share.

A price may change every few minutes, at another moment for every node, and a job may have thousands
of them. What is known of each worker is kept as exactly as there is room for in the status. What is
left out has been charged: the sums get the difference, which is never below zero.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from spotrun.api.cost import MOST_EARLIER
from spotrun.decide.cost.rates import Book, Charge, Charges, grouped
from spotrun.money.prices import EVER

MOST_BYTES = 48_000
"""Of the status of the largest job an eighth, besides the serial numbers themselves."""
_BYTES_OF_RATE = 130
_BYTES_OF_EARLIER = 80

Groups = Mapping[Charges, list[int]]


@dataclass(frozen=True)
class _Grain:
    """How exactly the past is kept."""

    earlier: int  # so many prices before the present one
    grid: timedelta | None  # moments at which a price is said to have changed; None: any


_GRAINS = (
    _Grain(MOST_EARLIER, None),
    _Grain(8, timedelta(minutes=1)),
    _Grain(4, timedelta(minutes=10)),
    _Grain(1, timedelta(hours=1)),
)
"""Exactly, if there is room. Whoever is found to have ended before what is kept has paid too much:
from then until the oldest moment that is kept, or the difference of two prices on the grid."""


def shortened(book: Book, starts: Mapping[int, datetime], now: datetime) -> Book:
    """Return the charges as exactly as there is room for; `starts` says when workers began."""
    groups, tried = grouped(book), list[Groups]()
    for grain in _GRAINS:
        coarser = {charges: _coarser(charges, grain, now) for charges in groups}
        if size_bytes(_apart(coarser.values())) > MOST_BYTES:
            continue
        shared = _shared(_merged(coarser, groups), starts)
        if size_bytes(shared) <= MOST_BYTES:
            return _book(shared)
        tried.append(shared)
    tried.append(_merged({charges: _all_but_last(charges, now) for charges in groups}, groups))
    return _book(min(tried, key=size_bytes))


def _apart(lists: Iterable[Charges]) -> Iterable[Charges]:
    """What at least remains: the longest of those with the same last price.

    Only what began with a worker may be found elsewhere.
    """
    longest: dict[Charge, Charges] = {}
    for charges in lists:
        last = charges[-1]
        if last.since != EVER and len(charges) > len(longest.get(last, ())):
            longest[last] = charges
    return longest.values()


def _all_but_last(charges: Charges, now: datetime) -> Charges:
    return (replace(charges[-1], since=now),)


def size_bytes(groups: Iterable[Charges]) -> int:
    """Estimate how long that is in the status, without the serial numbers."""
    return sum(
        _BYTES_OF_RATE + len(charges[-1].pool) + _BYTES_OF_EARLIER * (len(charges) - 1)
        for charges in groups
    )


def _book(groups: Groups) -> Book:
    return {serial: charges for charges, serials in groups.items() for serial in serials}


def _merged(new: Mapping[Charges, Charges], groups: Groups) -> Groups:
    found: dict[Charges, list[int]] = {}
    for charges, serials in groups.items():
        found.setdefault(new[charges], []).extend(serials)
    return found


def _coarser(charges: Charges, grain: _Grain, now: datetime) -> Charges:
    """Leave out the oldest prices, and move the changes between the others to the grid."""
    kept = charges[-grain.earlier - 1 :]
    return kept if grain.grid is None else _on_grid(kept, grain.grid, now)


def _on_grid(charges: Charges, grid: timedelta, now: datetime) -> Charges:
    """Let each stretch of time cost no more than it did: so the difference is above zero.

    Who costs more now does so from a little later, who costs less from a little earlier.
    """
    first = next((n for n, one in enumerate(charges) if n and _is_off(one, grid)), len(charges))
    found = list(charges[:first])
    for index, charge in enumerate(charges[first:], first):
        before = charges[index - 1]
        until = charges[index + 1].since if index + 1 < len(charges) else now
        since = _moved(before, charge, grid, until)
        while found and found[-1].since >= since:
            found.pop()
        if since < until or charge is charges[-1]:
            found.append(charge if since == charge.since else replace(charge, since=since))
    return tuple(found)


def _is_off(charge: Charge, grid: timedelta) -> bool:
    return bool((charge.since - EVER) % grid)


def _moved(before: Charge, charge: Charge, grid: timedelta, until: datetime) -> datetime:
    down = charge.since - (charge.since - EVER) % grid
    if down == charge.since or (before.is_spot, before.pool) != (charge.is_spot, charge.pool):
        return charge.since  # of another pool, one of two sums would fall
    if charge.usd_per_hour < before.usd_per_hour:
        return max(down, before.since)
    return min(down + grid, until)


def _shared(groups: Groups, starts: Mapping[int, datetime]) -> Groups:
    """Let workers have the longest list of prices that costs them the same as their own.

    Whoever came after a price had changed knows nothing of the one before, and need not.
    """
    codes: dict[Charge, int] = {}
    coded = {
        charges: [(_code(codes, replace(one, since=EVER)), _code(codes, one)) for one in charges]
        for charges in groups
    }
    longest: dict[tuple[int, ...], Charges] = {}
    for charges in sorted(groups, key=len):
        for index in range(len(charges)):
            longest[_from(coded[charges], index)] = charges
    found: dict[Charges, list[int]] = {}
    for charges, serials in groups.items():
        since = [one.since for one in charges]
        others = [longest[_from(coded[charges], index)] for index in range(len(charges))]
        for serial in serials:
            index = max(bisect_right(since, starts[serial]) - 1, 0)
            fit = _fit(charges, others[index], index, starts[serial])
            found.setdefault(fit, []).append(serial)
    return found


def _fit(charges: Charges, other: Charges, index: int, start: datetime) -> Charges:
    """Choose between two lists, which are the same from one of the prices on."""
    if other is charges:
        return charges
    own, begins = charges[index].since, other[len(other) - len(charges) + index].since
    # What was before its first price is in the sums, unless it had that when it came.
    return other if begins == own or max(begins, own) <= start else charges


def _from(coded: list[tuple[int, int]], index: int) -> tuple[int, ...]:
    """What is charged from an entry on, whenever that began."""
    return (coded[index][0], *(with_moment for _, with_moment in coded[index + 1 :]))


def _code(codes: dict[Charge, int], charge: Charge) -> int:
    """Number the charges, for exact prices are slow to compare."""
    return codes.setdefault(charge, len(codes))
