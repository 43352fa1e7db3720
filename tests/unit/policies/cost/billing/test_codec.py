"""A bill is read as it was written, and stays small without losing a cent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.policies.cost.billing.codec import bill_name, fitted, read, write
from spotrun.policies.cost.billing.lines import JobFacts, Standing
from spotrun.policies.cost.billing.month_bill import Known, MonthBill, changes, with_lines
from tests.unit.policies.cost.billing.histories import NOVEMBER, SPOT, at, bill_of, facts

_UID = "{:08x}-1111-4222-8333-444455556666"


def jobs(number: int, standing: Standing, team: str = "vision") -> list[JobFacts]:
    return [
        facts(at(2), {SPOT: 100 + n}, uid=_UID.format(n), standing=standing, team=team)
        for n in range(number)
    ]


def total(bill: MonthBill) -> int:
    listed = sum(sum(line.charged.values()) for line in bill.jobs.values())
    return listed + sum(bill.others.values())


@given(st.integers(0, 8), st.sampled_from(Standing), st.integers(300, 3_000))
def test_a_bill_is_read_as_it_was_written(number: int, standing: Standing, most: int) -> None:
    seen = jobs(number + 1, standing)
    bill = fitted(bill_of(*seen), {seen[0].uid}, most)
    assert read(write(bill)) == bill


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version":2}', '{"version":1,"jobs":[{}]}', '{"version":1,"jobs":3}']
)
def test_text_that_is_no_bill_says_so(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json has words of its own
        read(text)


def test_a_bill_that_grows_too_long_adds_up_jobs_that_are_over() -> None:
    bill = bill_of(*jobs(1_500, Standing.GONE))
    small = fitted(bill, set())
    assert len(write(bill)) > 200_000 >= len(write(small))
    assert total(small) == total(bill)
    assert 300 < len(small.jobs) < 1_500


def test_jobs_that_may_cost_more_are_always_listed() -> None:
    bill = bill_of(*jobs(1_500, Standing.OPEN))
    assert fitted(bill, set()) == bill


def test_a_job_that_is_over_and_there_is_not_charged_again_when_it_is_listed_no_more() -> None:
    seen = jobs(1_500, Standing.ENDED)
    small = fitted(bill_of(*seen), {one.uid for one in seen})
    known = Known().after(small)
    assert small.folded
    assert changes(known, seen) == {}


def test_a_bill_forgets_the_deleted_jobs_that_it_does_not_list() -> None:
    seen = jobs(1_500, Standing.ENDED)
    small = fitted(bill_of(*seen), {one.uid for one in seen})
    more = [
        facts(at(3), {SPOT: 1}, uid=_UID.format(n), standing=Standing.GONE)
        for n in range(2_000, 3_500)
    ]
    smaller = fitted(with_lines(small, changes(Known(), more)[NOVEMBER]), set())
    assert not smaller.folded
    assert total(smaller) == total(small) + 1_500


def test_labels_that_are_all_different_do_not_make_a_bill_long() -> None:
    seen = [
        facts(at(2), {SPOT: n}, uid=_UID.format(n), standing=Standing.GONE, team=f"t{n}" * 8)
        for n in range(1, 3_000)
    ]
    small = fitted(bill_of(*seen), set())
    assert len(write(small)) <= 200_000
    assert total(small) == sum(range(1, 3_000))


def test_a_bill_has_a_name_that_a_config_map_may_have() -> None:
    assert bill_name("team-a", NOVEMBER) == "spotrun-bill.team-a.2026-11"
