"""What checkpoints in a bucket cost: agreed to the cent with a meter that shares no code."""

from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.names import Phase, Pricing
from spotrun.money.data.builtin_tables import built_in_tables
from spotrun.money.other_costs.storage_prices import Bucket, StoragePrice
from spotrun.money.price_sources import Catalog
from spotrun.policies.cost.storage.ledger import MOST_BYTES_PER_SECOND, MOST_REQUESTS_PER_SECOND
from spotrun.state.stored.cost import StorageCost
from spotrun.wire import MOST_STEPS, Progress, StoreUse
from tests.meter.store import StoreMeter
from tests.support.jobs.builders import NOW, JobBuilder, a_job
from tests.support.jobs.stored_state import stored
from tests.support.money.priced_nodes import a_node, at_work

GIB = 2**30
CENT = Decimal("0.01")
PRICE = Catalog(built_in_tables()).storage(Bucket("s3://bucket", region="us-east-1"))
IN_S3 = {"checkpoint": {"uri": "s3://bucket/prefix"}}


def test_the_price_in_the_package_has_a_source_and_a_day() -> None:
    assert PRICE is not None
    assert (PRICE.source, str(PRICE.as_of)[:10]) == (
        "built-in table of S3 prices of 2025-10-28",
        "2025-10-28",
    )


@dataclass
class Life:
    """A job with a bucket, looked at now and then."""

    job: JobBuilder
    price: StoragePrice | None = PRICE
    seconds: float = 0.0
    zone: str = "us-east-1a"

    @classmethod
    def begun(cls, workers: int = 2, **facts: Any) -> "Life":
        job = a_job(workers, **IN_S3).training(*range(workers))
        return cls(job, **facts)

    def look(self, seconds: float, *uses: StoreUse | None, world: int = 1) -> StorageCost | None:
        """Let time pass, and look at what the workers report then."""
        self.seconds += seconds
        for worker_id, use in enumerate(uses):
            node = a_node(f"n{worker_id}", zone=self.zone, region=self.zone[:-1])
            told = Progress(world, 10, store=use)
            self.job = at_work(
                self.job, worker_id, node=node, ready=True, arrived=world, progress=told
            )
        job = self.job.with_facts(written_seconds=600.0, storage_price=self.price, created_at=NOW)
        status = job.decide(NOW + timedelta(seconds=self.seconds)).status
        self.job = self.job.with_state(stored(status))
        assert stored(status) == status
        return status.cost.storage


def use(puts: int = 0, gets: int = 0, stored: int | None = None, **more: Any) -> StoreUse:
    return StoreUse(puts, gets, stored_bytes=stored, region="us-east-1", **more)


def test_bytes_and_requests_cost_what_the_price_list_says() -> None:
    life = Life.begun()
    life.look(60, use(1000, 500, 100 * GIB), use(500))
    shown = life.look(730 * 3600, use(2000, 500, 100 * GIB), use(500))
    assert shown is not None
    assert (str(shown.stored_usd), str(shown.requests_usd)) == ("$2.30", "$0.01")
    assert (shown.transfer_usd, str(shown.usd)) == (None, "$2.31")
    assert str(shown.usd_per_month) == "$2.30"
    assert shown.stored_bytes == 100 * GIB
    assert shown.pricing is Pricing.COMPLETE


def test_deleted_checkpoints_stop_to_cost() -> None:
    life = Life.begun(1)
    life.look(60, use(stored=100 * GIB))
    before = life.look(365 * 3600, use(stored=0))
    after = life.look(365 * 3600, use(stored=0))
    assert before is not None
    assert after is not None
    assert str(before.stored_usd) == str(after.stored_usd) == "$1.15"
    assert after.usd_per_month is None


@given(
    st.lists(
        st.tuples(
            st.integers(1, 10**6),  # seconds until then
            st.integers(0, 5000),  # requests since
            st.integers(0, 5000),
            st.integers(0, 400 * GIB),  # what is stored from then on
            st.booleans(),  # whether another world began
        ),
        min_size=1,
        max_size=8,
    )
)
def test_it_agrees_to_the_cent_with_a_meter_that_shares_no_code(
    looks: list[tuple[int, int, int, int, bool]],
) -> None:
    life, meter = Life.begun(1), StoreMeter()
    asked: list[Request] = []
    puts = gets = 0
    world, shown, moment = 1, None, NOW
    for seconds, new_puts, new_gets, wanted, is_new_world in looks:
        if is_new_world:
            world, puts, gets = world + 1, 0, 0
            at = replace(life.job.status.world, number=world)
            life.job = life.job.with_status(world=at)
        puts, gets = puts + new_puts, gets + new_gets
        level = min(wanted, seconds * MOST_BYTES_PER_SECOND)
        asked += [Request("PUT")] * new_puts + [Request("GET")] * new_gets
        moment += timedelta(seconds=seconds)
        meter.stored(moment, level)
        shown = life.look(seconds, use(puts, gets, level), world=world)
    assert shown is not None
    assert shown.stored_usd is not None
    assert shown.requests_usd is not None
    assert abs(shown.stored_usd.decimal - as_decimal(meter.stored_usd(moment))) < CENT
    assert abs(shown.requests_usd.decimal - as_decimal(meter.requests_usd(asked))) < CENT / 1000


@dataclass(frozen=True)
class Request:
    method: str
    path: str = "/bucket/key"


def as_decimal(number: Any) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def test_traffic_costs_where_the_bucket_is_in_another_region() -> None:
    far, near = Life.begun(1, zone="eu-west-1a"), Life.begun(1)
    moved = use(1, put_bytes=50 * GIB, got_bytes=50 * GIB)
    there, here = (life.look(60, moved) for life in (far, near))
    assert there is not None
    assert here is not None
    assert str(there.transfer_usd) == "$2.00"
    assert here.transfer_usd is None


def test_what_has_no_price_yet_is_priced_once_a_table_has_it() -> None:
    life = Life.begun(1, price=None)
    life.look(60, use(1000, 0, GIB))
    unknown = life.look(730 * 3600, use(1000, 0, GIB))
    assert unknown == StorageCost(stored_bytes=GIB, pricing=Pricing.PARTIAL)
    life.price = PRICE
    known = life.look(60, use(1001, 0, GIB))
    assert known is not None
    assert str(known.usd) == "$0.03"
    assert known.pricing is Pricing.COMPLETE


def test_no_report_is_believed_beyond_what_can_be() -> None:
    life = Life.begun(1)
    said = use(MOST_STEPS, MOST_STEPS, MOST_STEPS)
    life.look(10, said)
    sums = life.job.status.accumulators.storage
    assert sums is not None
    assert sums.counted.puts == sums.counted.gets == 10 * MOST_REQUESTS_PER_SECOND
    assert sums.stored_bytes == 10 * MOST_BYTES_PER_SECOND


def test_a_suspended_job_pays_for_its_bytes_and_a_finished_one_says_what_it_leaves() -> None:
    life = Life.begun(1)
    life.look(60, use(stored=100 * GIB))
    life.job = replace(life.job, spec=life.job.spec.model_copy(update={"suspend": True}))
    held = life.look(73 * 3600)
    assert held is not None
    assert str(held.stored_usd) == "$0.23"
    life.job = life.job.with_status(phase=Phase.SUCCEEDED)
    over = life.look(730 * 3600)
    assert over == held
    assert str(held.usd_per_month) == "$2.30"


def test_a_budget_includes_the_checkpoints() -> None:
    life = Life.begun(1)
    spec = a_job(1, **IN_S3, budget={"maxCostUsd": "10"}).spec
    life.job = replace(life.job, spec=spec)
    life.look(60, use(stored=1000 * GIB))
    before = life.job.status.cost.budget_used_percent
    life.look(120, use(1_000_000, stored=1000 * GIB))
    after = life.job.status.cost.budget_used_percent
    assert before is not None
    assert after is not None
    assert after.decimal - before.decimal >= 49


def test_a_job_without_a_bucket_says_nothing() -> None:
    job = a_job(1).training(0)
    life = Life(job)
    assert life.look(60, None) is None
