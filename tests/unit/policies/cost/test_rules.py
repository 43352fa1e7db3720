"""Rules that hold for what is said of a job's cost, whenever it is looked at and by whom."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.api.cost import Accumulators
from spotrun.money.ledger import Segment
from spotrun.money.ledger import cost as ledger_cost
from spotrun.money.units import NO_USD, Usd
from spotrun.policies.cost.bill import to_show
from spotrun.policies.cost.goodput.steps import with_work
from spotrun.state.job_state import JobState
from spotrun.state.stored.cost import NO_COST
from spotrun.state.stored.cost import Accumulators as Sums
from tests.support.jobs.builders import NOW, a_job
from tests.support.jobs.stored_state import cost_of, sums_of
from tests.support.money.priced_nodes import a_node, at_work, ended

_ROUNDING = Decimal("1e-9")  # rates are written to the twelfth place, and last for hours
SHARE = Decimal("0.25")

moments = st.integers(0, 7200).map(lambda seconds: NOW + timedelta(seconds=seconds))
prices = st.decimals("0.1", "40", places=3).map(str)


@dataclass(frozen=True)
class Life:
    """Two workers on one node from an hour before NOW on, until each ends; its price changes."""

    ends: tuple[datetime, datetime]
    changes: tuple[tuple[datetime, str], ...]
    looks: tuple[tuple[datetime, bool], ...]  # at which moments, and whether it could be written

    def seen(self, status: JobState, now: datetime) -> JobState:
        """What is said at a moment, by somebody who knows nothing but what was said before."""
        known = tuple(change for change in self.changes if change[0] <= now)
        job = a_job(2).with_state(status).with_facts(written_seconds=600.0)
        for worker_id, end in enumerate(self.ends):
            over = {**ended(), "ended_at": end} if end <= now else {}
            job = at_work(job, worker_id, node=a_node(changes=known), **over)
        numbers = max(job.status.next_worker_id or 0, 2)
        return job.with_status(next_worker_id=numbers).decide(now).status

    def course(self) -> Iterator[JobState]:
        """Whatever was written, and what is at the end."""
        status = JobState()
        for now, is_written in sorted(self.looks):
            said = self.seen(status, now)
            if is_written:
                status = said
                yield status
        yield self.seen(status, NOW + timedelta(hours=3))

    def whole(self) -> Decimal:
        """The same by the ledger, in one piece."""
        start = NOW - timedelta(hours=1)
        history = a_node(changes=self.changes).prices
        held = [Segment(n, start, end, SHARE, history) for n, end in enumerate(self.ends)]
        return ledger_cost(held, max(self.ends)).usd.decimal


lives = st.builds(
    Life,
    ends=st.tuples(moments, moments),
    changes=st.lists(
        st.tuples(moments, prices), max_size=4, unique_by=lambda change: change[0]
    ).map(lambda found: tuple(sorted(found))),
    looks=st.lists(st.tuples(moments, st.booleans()), max_size=5).map(tuple),
)


def sums(status: JobState) -> Accumulators:
    return sums_of(status)


def usd(status: JobState) -> Decimal:
    shown = cost_of(status).usd
    assert shown is not None
    return shown.decimal


@settings(max_examples=12, deadline=None)
@given(lives)
def test_the_sum_at_the_end_is_the_ledgers_however_often_and_by_whom_it_was_looked_at(
    life: Life,
) -> None:
    *_, last = life.course()
    assert str(last.settled) == "0-1"
    settled = sums(last).usd
    assert settled is not None
    assert abs(settled.decimal - life.whole()) < _ROUNDING


@settings(max_examples=12, deadline=None)
@given(lives)
def test_what_was_said_to_be_spent_never_falls(life: Life) -> None:
    said = [usd(status) for status in life.course()]
    assert said == sorted(said)


@settings(max_examples=15, deadline=None)
@given(lives, moments)
def test_who_decides_again_on_what_was_written_says_the_same(life: Life, now: datetime) -> None:
    once = life.seen(JobState(), now)
    again = life.seen(once, now)
    assert (again.cost, again.settled) == (once.cost, once.settled)
    assert (sums(again).usd, sums(again).rates) == (sums(once).usd, sums(once).rates)


amounts = st.decimals(0, 10_000, places=12).map(Usd)


@given(amounts, amounts)
def test_the_figures_that_are_shown_add_up(on_demand: Usd, spent: Usd) -> None:
    status = JobState(accumulators=Sums(on_demand_usd=on_demand))
    shown = with_work(NO_COST, status, spent)
    assert shown.on_demand_usd is not None
    assert shown.saved_usd is not None
    assert shown.saved_usd.decimal + to_show(spent).decimal == shown.on_demand_usd.decimal
    assert with_work(NO_COST, JobState(), NO_USD).saved_usd is None
