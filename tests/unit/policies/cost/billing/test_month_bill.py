"""Bills of many months say together what each job was charged last."""

from spotrun.policies.cost.billing.lines import Standing
from spotrun.policies.cost.billing.month_bill import (
    Known,
    MonthBill,
    changes,
    digest_of,
    fold,
    foldable,
    merged_others,
    with_lines,
)
from tests.unit.policies.cost.billing.histories import SPOT, at, bill_of, facts


def test_what_all_bills_know_of_a_job_is_its_latest_line() -> None:
    job = facts(at(20), 100)
    later = facts(at(2, month=12), 300)
    first = bill_of(job)
    lines = changes(Known().after(first), [later])
    known = Known()
    for month, new in lines.items():
        known = known.after(with_lines(MonthBill("ns", month), new))
    assert [line.month for line in known.lines.values()] == ["2026-12"]
    assert known.only(set(), "2027-01") == Known()
    assert known.only({job.uid}, "2027-01") == known


def test_a_digest_is_short() -> None:
    assert digest_of("0f8d4c1e-0abc-4000-8000-000000000001") == "0f8d4c1e0abc"


def test_jobs_that_are_over_can_be_added_up_and_those_first_that_ended_first() -> None:
    late = facts(at(9), 5, uid="late", standing=Standing.ENDED)
    early = facts(at(3), 7, uid="early", standing=Standing.GONE)
    runs = facts(at(2), 9, uid="runs")
    bill = bill_of(late, early, runs)
    assert foldable(bill) == ["early", "late"]
    folded = fold(bill, ["early", "late"], {"late"})
    assert list(folded.jobs) == ["runs"]
    assert list(folded.others.values()) == [12]
    assert folded.folded == {"late"}


def test_of_too_many_sums_the_smallest_lose_their_labels() -> None:
    jobs = [facts(at(3), n, uid=f"{n}", standing=Standing.GONE, team=f"t{n}") for n in range(1, 11)]
    bill = fold(bill_of(*jobs), [f"{n}" for n in range(1, 11)], set())
    few = merged_others(bill, 4)
    assert sorted(few.others.values()) == [9, 10, 36]
    assert merged_others(few, 4) == few
    assert [key.part for key, units in few.others.items() if units == 36] == [
        SPOT._replace(pool="")
    ]
