"""The meter's bench is told how many lives and budgets before it starts a cluster for them."""

import sys

import pytest

from bench import meter


@pytest.mark.parametrize("option", ["--lives", "--budgets"])
@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_nothing_is_measured_of_none(
    option: str, number: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(meter, "budgets", lambda _: pytest.fail("it was started"))
    monkeypatch.setattr(sys, "argv", ["meter.py", f"{option}={number}"])
    with pytest.raises(SystemExit) as ended:
        meter.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"argument {option}: '{number}' is not a count: use 1, 2, 3 ..." in said
