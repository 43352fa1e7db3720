"""Compaction of charges: older prices are added up, and workers share lists of prices.

A price may change every few minutes, at another moment for every node, and a job may have thousands
of nodes. The charges of each worker are kept as exactly as the status has room for. The cost at
prices that are left out is added to the sums; it is never below zero.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from spotrun.api.cost import MOST_EARLIER
from spotrun.money.charges import Book, Charge, Charges, grouped
from spotrun.money.price_history import EVER

MOST_BYTES = 48_000
"""An eighth of the status of the largest job; worker ids are not counted."""
_BYTES_OF_RATE = 130
_BYTES_OF_EARLIER = 80

Groups = Mapping[Charges, list[int]]


_EARLIER = (MOST_EARLIER, 8, 4, 2, 1, 0)
"""Numbers of prices before the present one to keep: all are tried, and the largest with room is
used. A worker found to have ended before the oldest kept price stays charged until that price
began."""


def shortened(book: Book, starts: Mapping[int, datetime], now: datetime) -> Book:
    """Return the charges as exactly as there is room for; `starts` has the workers' starts."""
    groups, tried = grouped(book), list[Groups]()
    for earlier in _EARLIER:
        coarser = {charges: Charges(charges[-earlier - 1 :]) for charges in groups}
        if size_bytes(_apart(coarser.values())) > MOST_BYTES:
            continue
        shared = _shared(_merged(coarser, groups), starts)
        if size_bytes(shared) <= MOST_BYTES:
            return _book(shared)
        tried.append(shared)
    tried.append(_merged({charges: _all_but_last(charges, now) for charges in groups}, groups))
    return _book(min(tried, key=size_bytes))


def _apart(lists: Iterable[Charges]) -> Iterable[Charges]:
    """Return the lists that cannot be shared away: for each last price the longest list.

    A list whose last price holds since the worker came (EVER) is left out: it may be the end of a
    longer list, and then it needs no entry of its own.
    """
    longest: dict[Charge, Charges] = {}
    for charges in lists:
        last = charges[-1]
        if last.since != EVER and len(charges) > len(longest.get(last, ())):
            longest[last] = charges
    return longest.values()


def _all_but_last(charges: Charges, now: datetime) -> Charges:
    return Charges((replace(charges[-1], since=now),))


def size_bytes(groups: Iterable[Charges]) -> int:
    """Estimate the length of these charges in the status, without the worker ids."""
    return sum(
        _BYTES_OF_RATE + len(charges[-1].pool) + _BYTES_OF_EARLIER * (len(charges) - 1)
        for charges in groups
    )


def _book(groups: Groups) -> Book:
    return {
        worker_id: charges for charges, worker_ids in groups.items() for worker_id in worker_ids
    }


def _merged(new: Mapping[Charges, Charges], groups: Groups) -> Groups:
    found: dict[Charges, list[int]] = {}
    for charges, worker_ids in groups.items():
        found.setdefault(new[charges], []).extend(worker_ids)
    return found


def _shared(groups: Groups, starts: Mapping[int, datetime]) -> Groups:
    """Give each worker the longest list of prices that costs it the same as its own.

    A worker that came after a price change does not have the earlier price, and does not need it.
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
    for charges, worker_ids in groups.items():
        since = [one.since for one in charges]
        others = [longest[_from(coded[charges], index)] for index in range(len(charges))]
        for worker_id in worker_ids:
            index = max(bisect_right(since, starts[worker_id]) - 1, 0)
            fit = _fit(charges, others[index], index, starts[worker_id])
            found.setdefault(fit, []).append(worker_id)
    return found


def _fit(charges: Charges, other: Charges, index: int, start: datetime) -> Charges:
    """Choose between two lists that are the same from one of the prices on."""
    if other is charges:
        return charges
    own, begins = charges[index].since, other[len(other) - len(charges) + index].since
    # The other list has more earlier prices. It is wrong for a worker whose first price began
    # after the worker did: the cost before that price is in the sums already.
    if len(other) > len(charges) and own > start:
        return charges
    return other if begins == own or max(begins, own) <= start else charges


def _from(coded: list[tuple[int, int]], index: int) -> tuple[int, ...]:
    """Return a key for the charges from an entry on, without the start of that entry."""
    return (coded[index][0], *(with_moment for _, with_moment in coded[index + 1 :]))


def _code(codes: dict[Charge, int], charge: Charge) -> int:
    """Return a number for a charge, because exact prices are slow to compare."""
    return codes.setdefault(charge, len(codes))
