"""Waste by its cause: money that bought nothing, as far as it is measured."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import median

from spotrun.money.units import NO_USD, Usd
from spotrun.policies.cost.bill import to_show
from spotrun.state.stored.cost import Accumulators, Waste
from spotrun.wire import Progress


def with_waited(
    sums: Accumulators, reports: Sequence[Progress], useful: Usd, most: Usd
) -> Accumulators:
    """Add the waits in useful steps of that cost; each sum of waits is at most `most`."""
    peers = _with(sums.peers_usd, useful, [one.communicate for one in reports])
    data = _with(sums.data_usd, useful, [one.data for one in reports])
    return replace(
        sums,
        peers_usd=min(peers, most).as_stored if peers else sums.peers_usd,
        data_usd=min(data, most).as_stored if data else sums.data_usd,
    )


def waste_shown(sums: Accumulators) -> Waste:
    """Return the waste as it is shown, by its causes; unknown parts are left out."""
    lost, redone = sums.lost_work_usd or NO_USD, sums.redone_usd or NO_USD
    return Waste(
        redone_usd=_shown(redone),
        standstill_usd=_shown(max(lost - redone, NO_USD)),
        peers_usd=_shown(sums.peers_usd),
        data_usd=_shown(sums.data_usd),
        checkpoint_usd=_shown(sums.checkpoint_usd),
    )


def _shown(usd: Usd | None) -> Usd | None:
    return to_show(usd) if usd else None


def _with(known: Usd | None, useful: Usd, shares: Iterable[float | None]) -> Usd:
    """Add the median of the reported shares to the sum; a report without a share does not count."""
    reported = [share for share in shares if share is not None]
    before = known or NO_USD
    return before + useful * Fraction(median(reported)) if reported else before
