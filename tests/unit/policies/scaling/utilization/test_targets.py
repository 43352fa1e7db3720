"""What utilization alone proposes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.spec.workers import TargetResource
from spotrun.policies.scaling.facts import Gauge
from spotrun.policies.scaling.utilization.targets import proposal


def gauge(*reported: float, silent: int = 0, target: float = 0.7, tolerance: float = 0.1) -> Gauge:
    return Gauge(TargetResource.GPU, target, tolerance, reported, silent)


def asked(*gauges: Gauge, running: int = 4) -> int | None:
    found = proposal(gauges, running)
    return found.size if found is not None else None


@pytest.mark.parametrize(
    ("used", "size"),
    [
        pytest.param(0.70, 4, id="at the target"),
        pytest.param(0.76, 4, id="within the tolerance, above"),
        pytest.param(0.64, 4, id="within the tolerance, below"),
        pytest.param(0.80, 5, id="rounded up"),
        pytest.param(1.00, 6, id="all of it"),
        pytest.param(0.35, 2, id="half of it: no more than that, whatever floats say"),
        pytest.param(0.36, 3, id="a little more than half"),
        pytest.param(0.00, 1, id="nothing"),
    ],
)
def test_it_counts_as_a_horizontal_pod_autoscaler(used: float, size: int) -> None:
    assert asked(gauge(used, used, used, used)) == size


def test_the_target_that_asks_for_most_workers_counts() -> None:
    assert asked(gauge(0.2), gauge(0.9), gauge(0.7)) == 6


@pytest.mark.parametrize(
    ("reported", "silent", "size"),
    [
        pytest.param((1.0,) * 5, 1, 5, id="who is silent may use nothing"),
        pytest.param((1.0, 1.0), 2, 4, id="so few tell that it may be nothing"),
        pytest.param((0.1, 0.1, 0.1), 1, 2, id="who is silent may use all it has"),
        pytest.param((0.5, 0.5), 2, 4, id="so few tell that all may be needed"),
    ],
)
def test_of_silent_workers_the_worse_is_assumed(
    reported: tuple[float, ...], silent: int, size: int
) -> None:
    assert asked(gauge(*reported, silent=silent)) == size


def test_nothing_is_proposed_where_nothing_is_told() -> None:
    assert asked(gauge(silent=4)) is None
    assert asked(running=4) is None
    assert asked(gauge(0.9), running=0) is None


def test_fewer_are_proposed_only_if_every_target_is_known() -> None:
    assert asked(gauge(0.2), gauge(silent=4)) is None
    assert asked(gauge(0.9), gauge(silent=4)) == 6


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.integers(0, 6), st.integers(1, 50))
def test_what_is_not_known_never_makes_a_change_larger(
    reported: list[float], silent: int, running: int
) -> None:
    known, unsure = (
        asked(gauge(*reported), running=running),
        asked(gauge(*reported, silent=silent), running=running),
    )
    assert known is not None
    assert unsure is not None
    assert abs(unsure - running) <= abs(known - running)
    assert (unsure - running) * (known - running) >= 0
