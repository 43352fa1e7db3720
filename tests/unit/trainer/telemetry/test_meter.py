from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.telemetry.meter import ACTIVITIES, WINDOW_STEPS, Activity, Meter, Recent

SECOND = 1_000_000_000


class Clock:
    """Stands still until it is told to go on."""

    now = 5 * SECOND

    def __call__(self) -> int:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def meter(clock: Clock) -> Meter:
    return Meter(clock=clock)


def spent(meter: Meter) -> dict[Activity, float]:
    """Without what took no time."""
    return {activity: seconds for activity, seconds in meter.totals().items() if seconds}


def step(meter: Meter, clock: Clock, **seconds: float) -> None:
    for activity in ACTIVITIES:
        with meter.span(activity):
            clock.passes(seconds.get(activity, 0.0))
    meter.step_done()


def test_time_in_no_span_is_start_until_the_first_step_is_done_and_compute_then(
    meter: Meter, clock: Clock
) -> None:
    clock.passes(3)
    meter.step_done()
    clock.passes(2)

    assert spent(meter) == {"start": 3.0, "compute": 2.0}


def test_an_inner_span_takes_its_time_away_from_the_outer_one(meter: Meter, clock: Clock) -> None:
    with meter.span("evaluate"):
        clock.passes(1)
        with meter.span("data"):
            clock.passes(2)
        clock.passes(4)

    assert spent(meter) == {"evaluate": 5.0, "data": 2.0}


def test_a_span_may_be_inside_itself(meter: Meter, clock: Clock) -> None:
    with meter.span("communicate"):
        clock.passes(1)
        with meter.span("communicate"):
            clock.passes(1)
        clock.passes(1)
    clock.passes(1)

    assert spent(meter) == {"start": 1.0, "communicate": 3.0}


def test_a_span_that_an_exception_leaves_has_ended(meter: Meter, clock: Clock) -> None:
    def fail() -> None:
        with meter.span("communicate"):
            clock.passes(1)
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fail()
    clock.passes(2)

    assert spent(meter) == {"start": 2.0, "communicate": 1.0}


def test_time_is_counted_while_a_span_is_open(meter: Meter, clock: Clock) -> None:
    with meter.span("restore"):
        clock.passes(2)
        assert spent(meter) == {"restore": 2.0}
        clock.passes(1)

    assert spent(meter) == {"restore": 3.0}


def test_a_step_is_what_it_computed_and_waited_for_and_not_what_was_done_aside(
    meter: Meter, clock: Clock
) -> None:
    meter.step_done()
    with meter.span("data"):
        clock.passes(1)
    clock.passes(5)
    with meter.span("communicate"):
        clock.passes(2)
    with meter.span("checkpoint"):
        clock.passes(10)
    with meter.span("evaluate"):
        clock.passes(20)
    times = meter.step_done()

    assert times == pytest.approx((5.0, 1.0, 2.0, 30.0))
    assert times.seconds == pytest.approx(8.0)


def test_the_time_of_saves_is_told_of_the_world_that_they_are_made_in(
    meter: Meter, clock: Clock
) -> None:
    step(meter, clock, checkpoint=3.0)
    assert meter.saving_seconds == 3.0
    meter.enter_world()
    assert meter.saving_seconds == 0.0
    with meter.span("checkpoint"):
        clock.passes(2)
        assert meter.saving_seconds == 0.0  # another thread may ask meanwhile
    assert meter.saving_seconds == 2.0


def test_a_first_step_inside_a_span_ends_the_start_all_the_same(meter: Meter, clock: Clock) -> None:
    with meter.span("wait"):
        meter.step_done()
    clock.passes(1)

    assert spent(meter) == {"compute": 1.0}


def test_before_the_second_step_nothing_is_known_of_recent_ones(meter: Meter, clock: Clock) -> None:
    assert meter.recent() is None
    step(meter, clock, start=60.0, compute=9.0)
    assert meter.recent() is None  # the first compiles and connects
    step(meter, clock, compute=1.0)
    assert meter.recent() == Recent(1.0, 1.0, 0.0, 0.0)


def test_a_typical_step_is_the_median_and_shares_are_of_all_the_time(
    meter: Meter, clock: Clock
) -> None:
    meter.step_done()
    for number in range(20):
        step(meter, clock, compute=0.5, communicate=0.1, data=4.0 if number % 10 == 0 else 0.0)

    assert meter.recent() == pytest.approx((0.6, 0.5, 0.4, 0.1))


def test_only_the_last_steps_are_recent(meter: Meter, clock: Clock) -> None:
    meter.step_done()
    step(meter, clock, data=100.0)
    for _ in range(WINDOW_STEPS):
        step(meter, clock, compute=1.0)

    assert meter.recent() == Recent(1.0, 1.0, 0.0, 0.0)


def test_steps_that_took_no_time_are_none(meter: Meter) -> None:
    for _ in range(3):
        meter.step_done()

    assert meter.recent() is None


actions = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.sampled_from(ACTIVITIES)),
        st.tuples(st.sampled_from(["leave", "step", "ask"]), st.none()),
        st.tuples(st.just("pass"), st.integers(0, 10**12)),
    ),
    max_size=60,
)


@given(actions)
def test_every_nanosecond_belongs_to_the_innermost_activity(
    done: list[tuple[str, int | Activity | None]],
) -> None:
    clock = Clock()
    meter = Meter(clock=clock)
    expected = dict.fromkeys(ACTIVITIES, 0)
    inside: list[Activity] = ["start"]
    stacks: list[ExitStack] = []
    for action, value in done:
        if action == "enter":
            assert isinstance(value, str)
            stacks.append(ExitStack())
            stacks[-1].enter_context(meter.span(value))
            inside.append(value)
        elif action == "leave" and stacks:
            stacks.pop().close()
            inside.pop()
        elif action == "step":
            meter.step_done()
            inside[0] = "compute"
        elif action == "ask":
            meter.totals()
        elif isinstance(value, int):
            clock.now += value
            expected[inside[-1]] += value

    totals = meter.totals()

    assert totals == {activity: seconds / SECOND for activity, seconds in expected.items()}
    assert sum(totals.values()) == pytest.approx((clock.now - Clock.now) / SECOND)


class Played:
    """A device that computes through some of the time of each span."""

    def __init__(self, hidden: list[tuple[Activity, int]]) -> None:
        self.entered = 0
        self.left: list[tuple[Activity, int]] = []
        self._hidden = hidden

    def enter(self) -> None:
        self.entered += 1

    def leave(self, activity: Activity, host_nanoseconds: int) -> None:
        self.left.append((activity, host_nanoseconds))

    def hidden(self) -> Iterator[tuple[Activity, int]]:
        while self._hidden:
            yield self._hidden.pop()


def test_what_a_device_computed_through_is_compute_and_the_sum_stays(clock: Clock) -> None:
    device = Played([("communicate", 3 * SECOND)])
    meter = Meter(device=device, clock=clock)
    with meter.span("communicate"):
        clock.passes(4)
    with meter.span("evaluate"):
        clock.passes(1)

    assert spent(meter) == {"compute": 3.0, "communicate": 1.0, "evaluate": 1.0}
    assert device.left == [("communicate", 4 * SECOND)]  # and nothing about evaluation
    assert device.entered == 1
