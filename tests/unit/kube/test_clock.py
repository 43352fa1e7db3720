"""The time of day while clocks jump, stand apart, or are told wrongly."""

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.kube.clock import AGREE_SECONDS, SETTLE_SECONDS, Clock

TRUE = datetime(2026, 3, 2, 12, 0, 0, 400_000, tzinfo=UTC)
HOUR = 3600.0


@dataclass
class Machines:
    """This machine's clocks and the API server's, and a test that moves them."""

    wall_ahead: float = 0.0
    server_ahead: float = 0.0
    seconds: float = 0.0
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = Clock(self._wall, lambda: self.seconds)

    def _wall(self) -> datetime:
        return self._after(self.wall_ahead)

    def _after(self, ahead: float) -> datetime:
        return TRUE + timedelta(seconds=self.seconds + ahead)

    def go_on(self, seconds: float = 5.0, *, took: float = 0.02) -> None:
        """Time passes, and the API server answers."""
        self.seconds += seconds
        said = format_datetime(self._after(self.server_ahead), usegmt=True)
        self.clock.compare(said, self.seconds - took)

    @property
    def ahead(self) -> float:
        """Of the true time, in seconds."""
        return (self.clock.now() - self._after(0.0)).total_seconds()

    @property
    def tells(self) -> tuple[float, bool]:
        return round(self.ahead), self.clock.is_sure


def test_it_is_this_machines_time_where_the_api_server_agrees() -> None:
    machines = Machines(wall_ahead=0.3)
    assert machines.tells == (0, False), "nobody has confirmed it yet"
    machines.go_on()
    assert machines.tells == (0, True)
    assert machines.ahead == pytest.approx(0.3), "to the fraction of a second"


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 3.0])
def test_a_jump_of_the_wall_clock_is_not_followed(jump: float) -> None:
    machines = Machines()
    machines.go_on()
    machines.wall_ahead = jump
    assert machines.tells == (0, True)
    machines.go_on()
    assert machines.tells == ((0, True) if abs(jump) > AGREE_SECONDS else (jump, True))
    machines.wall_ahead = 0.0
    machines.go_on()
    assert machines.tells == (0, True)


def test_a_machine_that_stood_still_takes_the_time_that_the_api_server_confirms() -> None:
    """As when a virtual machine was paused: its monotonic clock did not go on."""
    machines = Machines()
    machines.go_on()
    machines.wall_ahead = machines.server_ahead = HOUR
    assert machines.tells == (0, True)
    machines.go_on()
    assert machines.tells == (HOUR, True)


def test_a_replica_whose_machine_is_wrong_from_the_start_takes_the_clusters_time() -> None:
    machines = Machines(wall_ahead=HOUR)
    machines.go_on()
    assert machines.tells == (0, False)
    while machines.seconds < SETTLE_SECONDS:
        machines.go_on()
        assert machines.tells == (0, False)
    machines.go_on()
    assert machines.tells == (0, True), "the API server has kept it for long"


def test_an_api_server_that_jumps_is_not_believed_before_that_has_lasted() -> None:
    machines = Machines()
    machines.go_on()
    machines.server_ahead = HOUR
    while machines.seconds < SETTLE_SECONDS:
        machines.go_on()
        assert machines.tells == (0, False)
    machines.server_ahead = 0.0
    machines.go_on()
    assert machines.tells == (0, True)


def test_of_two_api_servers_the_one_that_agrees_is_believed() -> None:
    machines = Machines()
    machines.go_on()
    for number in range(300):
        machines.server_ahead = HOUR * (number % 2)
        machines.go_on()
        assert machines.tells == (0, not number % 2)


def test_an_answer_that_took_long_was_dated_on_its_way() -> None:
    machines = Machines(server_ahead=-50.0)
    machines.go_on(60.0, took=55.0)
    assert machines.tells == (0, True)


@pytest.mark.parametrize("date", [None, "yesterday"])
def test_without_a_date_there_is_only_this_machine(date: str | None) -> None:
    machines = Machines(wall_ahead=HOUR)
    machines.clock.compare(date, 0.0)
    assert machines.tells == (HOUR, True)


@given(
    st.lists(st.tuples(st.floats(1.1, 120), st.sampled_from([0.0, 1.5, HOUR, -HOUR, 24 * HOUR])))
)
def test_while_the_api_server_is_right_the_time_is_never_far_off(
    steps: list[tuple[float, float]],
) -> None:
    machines = Machines()
    for seconds, wall_ahead in steps:
        machines.go_on(seconds)
        machines.wall_ahead = wall_ahead
        assert abs(machines.ahead) <= AGREE_SECONDS
        machines.go_on(seconds)
        assert abs(machines.ahead) <= AGREE_SECONDS


def test_of_clocks_that_disagree_it_is_warned_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "spotrun.kube.clock")
    machines = Machines()
    machines.go_on()
    for number in range(130):  # each request may come to another API server
        machines.server_ahead = HOUR * (number % 3)
        machines.go_on(1.0)
    assert len(caplog.records) == 3
