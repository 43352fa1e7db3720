"""Amounts hold what there is to be counted."""

from decimal import Decimal

import pytest

from spotrun.api.field_types.amounts import Amount


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(Decimal(24 * 2**40), id="bytes of the largest machine there is to rent"),
        pytest.param(Decimal("999999999999999.999999999999"), id="as many digits as there may be"),
        pytest.param(Decimal("0.000000000001"), id="the smallest part"),
    ],
)
def test_an_amount_is_read_as_it_was_written(number: Decimal) -> None:
    # A machine of 1 TiB once had too many bytes, and no job in its cluster could be decided.
    assert Amount.of(number).decimal == number
