"""What was paid and bought nothing, by its name: as far as somebody measures it."""

from collections.abc import Iterable
from fractions import Fraction
from statistics import median

from spotrun.api.cost import Accumulators, Waste
from spotrun.api.field_types.amounts import Amount
from spotrun.money.units import Usd
from spotrun.policies.cost.bill import to_show
from spotrun.state.job_state import JobState
from spotrun.state.view import View
from spotrun.state.world_members import last_told


def waited(view: View, status: JobState, useful: Usd, most: Usd) -> dict[str, object]:
    """Add what was waited in steps of that price, if all together may have cost `most`."""
    sums, told = status.accumulators or Accumulators(), last_told(view, status)
    parts = {
        "peers_usd": (sums.peers_usd, [progress.communicate for progress in told]),
        "data_usd": (sums.data_usd, [progress.data for progress in told]),
    }
    sums_then = {name: _with(known, useful, shares) for name, (known, shares) in parts.items()}
    return {name: min(usd, most).amount for name, usd in sums_then.items() if usd}


def waste_shown(status: JobState) -> Waste | None:
    """What of a job's cost names what was wasted; None: nothing that is known."""
    sums = status.accumulators or Accumulators()
    lost, redone = Usd.of(sums.lost_work_usd), Usd.of(sums.redone_usd)
    known = {
        "redone_usd": redone,
        "standstill_usd": max(lost - redone, Usd()),
        "peers_usd": Usd.of(sums.peers_usd),
        "data_usd": Usd.of(sums.data_usd),
        "checkpoint_usd": Usd.of(sums.checkpoint_usd),
    }
    shown = {name: to_show(usd) for name, usd in known.items() if usd}
    return Waste(**shown) if shown else None


def _with(known: Amount | None, useful: Usd, shares: Iterable[float | None]) -> Usd:
    """The sum with the part of the steps that most say; who measures nothing says none."""
    told = [share for share in shares if share is not None]
    return Usd.of(known) + useful * Fraction(median(told)) if told else Usd.of(known)
