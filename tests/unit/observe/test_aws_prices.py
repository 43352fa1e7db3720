import sys

import pytest

from spotrun.observe.aws_prices import AwsPrices
from tests.unit.money.builders import NOON


def test_who_has_no_boto3_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ValueError, match=r"install spotrun\[aws\]"):
        AwsPrices(["us-east-1"], clock=lambda: 0.0, wall=lambda: NOON, roll=lambda: 0.0)
