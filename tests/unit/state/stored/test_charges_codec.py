from spotrun.api.cost import Accumulators, Rate
from spotrun.api.field_types.text_values import WorkerIds
from spotrun.money.charges import Charge
from spotrun.money.price_history import EVER
from spotrun.money.units import UsdPerHour
from spotrun.state.stored.cost_codec import read_sums, write_sums
from tests.support.jobs.builders import a_job, ago
from tests.support.jobs.stored_state import sums_of
from tests.support.money.priced_nodes import at_work, ended


def test_rates_as_older_operators_wrote_them_are_read() -> None:
    old = Accumulators(
        rates=(
            Rate(workers=WorkerIds("0-1"), usd_per_hour="1"),
            Rate(workers=WorkerIds("1"), usd_per_hour="2", since="2026-03-02T11:30:00Z"),
        )
    )
    sums = read_sums(old)
    book = sums.rates
    one = Charge(EVER, UsdPerHour(1))
    assert book == {0: (one,), 1: (one, Charge(ago(1800), UsdPerHour(2)))}
    assert read_sums(write_sums(sums)).rates == book


def test_a_worker_of_more_prices_than_an_entry_holds_keeps_nobody_from_being_settled() -> None:
    job = at_work(at_work(a_job(2, min=1), 0, 1), 2, **ended())
    old = tuple(
        Rate(workers=WorkerIds("0-2"), usd_per_hour="1", since=f"2026-03-02T11:{minute}:00Z")
        for minute in range(10, 50)
    )
    job = job.with_status(accumulators=read_sums(Accumulators(rates=old)), next_worker_id=3)
    after = job.decide().status
    known, kept = job.status.accumulators.rates, after.accumulators.rates
    assert kept == {worker_id: known[worker_id] for worker_id in (0, 1)}
    assert len(kept[0]) == 40
    assert len(sums_of(after).rates or ()) == 3
    gone = job.with_facts(deleting=True).decide().status
    assert str(gone.settled) == "2", "nor a job from being deleted"
