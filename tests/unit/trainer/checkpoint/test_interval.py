import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.checkpoint.interval import interval_seconds

SECONDS = st.floats(0, 1e6)


@pytest.mark.parametrize(
    ("upload", "stall", "interference", "between_losses", "interval"),
    [
        pytest.param(0, 2, 0, 3600, 120, id="Young's own form"),
        pytest.param(10, 0.5, 1.5, 3600, 120, id="interference costs as a stall does"),
        pytest.param(300, 0.5, 1.5, 3600, 300, id="never shorter than an upload"),
        pytest.param(5, 0, 0, 3600, 5, id="what costs nothing is done all the time"),
        pytest.param(5, 0, 0, math.inf, 5, id="free and never needed"),
        pytest.param(5, 1, 0, math.inf, math.inf, id="never needed"),
        pytest.param(5, 1, 1, 0, 5, id="losses all the time"),
    ],
)
def test_intervals(
    upload: float, stall: float, interference: float, between_losses: float, interval: float
) -> None:
    assert interval == interval_seconds(upload, stall, interference, between_losses)


@given(SECONDS, st.floats(0.001, 1e6), SECONDS, st.floats(1, 1e7))
def test_no_other_interval_loses_less_time(
    upload: float, stall: float, interference: float, between: float
) -> None:
    def lost_share(interval: float) -> float:
        return (stall + interference) / interval + interval / (2 * between)

    interval = interval_seconds(upload, stall, interference, between)

    assert interval >= upload
    assert lost_share(interval) <= lost_share(interval * 1.1) * (1 + 1e-9)
    assert interval == upload or lost_share(interval) <= lost_share(interval / 1.1) * (1 + 1e-9)


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_seconds_are_not_negative(bad: float) -> None:
    with pytest.raises(ValueError, match="stall is a number of seconds, not"):
        interval_seconds(1, bad, 1, 1)
