import sys

import pytest

from spotrun.observe.prices.aws import aws_questions
from tests.unit.money.builders import NOON


def test_who_has_no_boto3_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ValueError, match=r"install spotrun\[aws\]"):
        aws_questions(lambda: NOON)
