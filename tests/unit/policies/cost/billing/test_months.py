"""Months follow each other without a gap."""

import pytest

from spotrun.policies.cost.billing.months import begin_of, end_of, month_of, months_between
from tests.unit.policies.cost.billing.histories import NOVEMBER, at


def test_months_follow_each_other() -> None:
    assert end_of("2026-12") == begin_of("2027-01")
    assert month_of(end_of(NOVEMBER)) == "2026-12"
    assert [month for month, _ in months_between(at(30), at(2, month=12))] == [
        "2026-11",
        "2026-12",
    ]
    assert months_between(at(3), at(3)) == [("2026-11", 0)]


def test_text_that_names_no_month_is_refused() -> None:
    with pytest.raises(ValueError, match="unconverted"):
        begin_of("2026-133")
