from decimal import Decimal

import pytest

from spotrun.money.transfer import Place, transfer_usd, usd_per_gb
from spotrun.money.units import Usd

HERE = Place("us-east-1", "us-east-1a")


@pytest.mark.parametrize(
    ("sender", "receiver", "usd"),
    [
        (HERE, HERE, "0"),
        (HERE, Place("us-east-1", "us-east-1b"), "0.02"),
        (HERE, Place("us-east-2", "us-east-2a"), "0.01"),
        (HERE, Place("eu-west-1", "eu-west-1a"), "0.02"),
        (HERE, Place("ap-southeast-7", "ap-southeast-7a"), "0.08"),
        (Place("sa-east-1", "sa-east-1a"), HERE, "0.138"),
        # Another cloud's region, another cloud's zones, and places nobody named.
        (HERE, Place("us-central1", "us-central1-a"), None),
        (Place("us-central1", "us-central1-a"), HERE, None),
        (Place("us-central1", "us-central1-a"), Place("us-central1", "us-central1-b"), None),
        (Place("us-central1", "us-central1-a"), Place("us-central1", "us-central1-a"), "0"),
        (Place("us-east-1", ""), Place("us-east-1", ""), None),
        (Place("", ""), Place("", ""), None),
    ],
)
def test_a_gb_between_places(sender: Place, receiver: Place, usd: str | None) -> None:
    assert usd_per_gb(sender, receiver) == (Usd(Decimal(usd)) if usd is not None else None)


def test_gradients_over_two_zones() -> None:
    """100 MB, 10,000 times an hour, there and back."""
    there = transfer_usd(100 * 10**6 * 10_000, HERE, Place("us-east-1", "us-east-1b"))
    assert there == Usd(20)
    assert transfer_usd(10**9, HERE, Place("us-central1", "us-central1-a")) is None
