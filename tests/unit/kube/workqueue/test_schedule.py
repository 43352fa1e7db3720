"""The rules of the work queue, by example and by random histories."""

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from typing_extensions import override

from spotrun.kube.backoff import Backoff
from spotrun.kube.workqueue.schedule import URGENT_IN_A_ROW, Schedule

Key = tuple[str, int]  # group, number


def schedule() -> Schedule[Key]:
    return Schedule(group_of=lambda key: key[0], backoff=Backoff(1.0, 64.0), roll=lambda: 1.0)


A, B, C = ("g", 1), ("g", 2), ("h", 1)


def test_a_key_that_waits_is_not_added_twice() -> None:
    it = schedule()
    it.add(A, 0)
    it.add(A, 0, urgent=True)
    it.add(A, 0)
    assert it.waiting() == 1
    assert it.take(0) == A
    assert it.take(0) is None


def test_an_add_during_the_work_leads_to_another_run() -> None:
    it = schedule()
    it.add(A, 0)
    assert it.take(0) == A
    it.add(A, 1)
    it.add(A, 1)
    assert it.take(1) is None, "not two at once"
    it.done(A, 2)
    assert it.take(2) == A
    it.done(A, 3)
    assert it.take(3) is None


def test_an_urgent_add_during_the_work_stays_urgent() -> None:
    it = schedule()
    it.add(A, 0)
    it.take(0)
    it.add(B, 0)
    it.add(A, 0, urgent=True)
    it.add(A, 0)
    it.done(A, 1)
    assert it.take(1) == A


def test_the_earliest_alarm_counts() -> None:
    it = schedule()
    it.add_at(A, 10)
    it.add_at(A, 5)
    it.add_at(A, 7)
    assert it.next_alarm() == 5
    assert it.take(4.9) is None
    assert it.take(5) == A
    it.done(A, 5)
    assert it.next_alarm() is None


def test_an_alarm_during_the_work_leads_to_another_run() -> None:
    it = schedule()
    it.add(A, 0)
    it.take(0)
    it.add_at(A, 1)
    assert it.take(2) is None
    it.done(A, 3)
    assert it.take(3) == A


def test_failures_come_again_ever_later_until_one_run_succeeds() -> None:
    it = schedule()
    it.add(A, 0)
    now = 0.0
    for pause in (1.0, 2.0, 4.0):
        assert it.take(now) == A
        assert it.failed(A, now) == pause
        assert it.take(now + pause - 0.01) is None
        now += pause
    assert it.failures(A) == 3
    assert it.take(now) == A
    it.done(A, now)
    assert it.failures(A) == 0


def test_an_event_does_not_cut_a_backoff_short_but_an_urgent_one_does() -> None:
    it = schedule()
    it.add(A, 0)
    it.take(0)
    it.failed(A, 0)
    it.add(A, 0.5)
    assert it.take(0.5) is None
    it.add(A, 0.5, urgent=True)
    assert it.take(0.5) == A


def test_an_event_during_a_run_that_fails_waits_for_the_backoff() -> None:
    it = schedule()
    it.add(A, 0)
    it.take(0)
    it.add(A, 0)
    it.failed(A, 0)
    assert it.take(0.5) is None
    assert it.take(1.0) == A


def test_a_retry_after_is_obeyed() -> None:
    it = schedule()
    it.add(A, 0)
    it.take(0)
    assert it.failed(A, 0, retry_after_seconds=30) >= 30


def test_what_is_forgotten_has_no_alarm_and_no_backoff() -> None:
    it = schedule()
    it.add(A, 0)
    it.take(0)
    it.failed(A, 0)
    it.forget(A)
    assert it.next_alarm() is None
    it.add(A, 0)
    assert it.take(0) == A


def test_groups_take_turns() -> None:
    it = schedule()
    for number in range(100):
        it.add(("busy", number), 0)
    it.add(C, 1)
    it.add(("other", 1), 2)
    taken = [it.take(3) for _ in range(4)]
    assert taken == [("busy", 0), C, ("other", 1), ("busy", 1)]


def test_urgent_keys_come_first_but_do_not_starve_the_others() -> None:
    it = schedule()
    it.add(C, 0)
    for number in range(20):
        it.add(("g", number), 0, urgent=True)
    taken = [it.take(0) for _ in range(URGENT_IN_A_ROW + 2)]
    assert taken.index(C) == URGENT_IN_A_ROW


def test_urgency_takes_a_waiting_key_out_of_turn() -> None:
    it = schedule()
    it.add(A, 0)
    it.add(B, 1)
    it.add(B, 2, urgent=True)
    assert it.oldest() == 0
    assert [it.take(2), it.take(2), it.take(2)] == [B, A, None]


def test_the_oldest_wait_is_known() -> None:
    it = schedule()
    assert it.oldest() is None
    it.add(A, 3)
    it.add(C, 2)
    assert it.oldest() == 2


def test_alarms_that_were_overtaken_are_not_kept_until_their_time() -> None:
    # A pool of which something is new every second, and which is else to be looked at in two days.
    it = schedule()
    for second in range(2_000):
        it.add_at(A, second + 172_800.0)
        it.add_at(B, 10_000.0)
        it.add_at(A, second + 1.0)
        assert it.take(second + 1.0) == A
        it.done(A, second + 1.0)

    assert len(it._heap) < 200
    assert it.next_alarm() == 10_000.0


class Histories(RuleBasedStateMachine):
    """Random adds, alarms, runs and failures, against what was promised."""

    keys = st.tuples(st.sampled_from("abc"), st.integers(0, 2))

    def __init__(self) -> None:
        super().__init__()
        self.it = schedule()
        self.now = 0.0
        self.working: set[Key] = set()
        self.owed: set[Key] = set()  # somebody has wanted a run since the last one began
        self.asked: Counter[Key] = Counter()
        self.runs: Counter[Key] = Counter()

    @rule(key=keys, urgent=st.booleans())
    def add(self, key: Key, urgent: bool) -> None:
        self.it.add(key, self.now, urgent=urgent)
        self._ask(key)

    @rule(key=keys, seconds=st.floats(0, 20))
    def add_at(self, key: Key, seconds: float) -> None:
        self.it.add_at(key, self.now + seconds)
        self._ask(key)

    @rule(seconds=st.floats(0.1, 30))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        key = self.it.take(self.now)
        if key is None:
            return
        assert key not in self.working, "never two at once for a key"
        self.runs[key] += 1
        assert self.runs[key] <= self.asked[key], "nobody asked for this run"
        self.working.add(key)
        self.owed.discard(key)

    @precondition(lambda self: self.working)
    @rule(data=st.data(), succeeds=st.booleans())
    def finish(self, data: st.DataObject, succeeds: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.working.discard(key)
        if succeeds:
            self.it.done(key, self.now)
        else:
            self.it.failed(key, self.now)
            self._ask(key)

    def _ask(self, key: Key) -> None:
        self.asked[key] += 1
        self.owed.add(key)

    @invariant()
    def counts_agree(self) -> None:
        assert self.it.working() == len(self.working)

    @override
    def teardown(self) -> None:
        """Nothing is lost: whoever is owed a run gets it, in bounded time."""
        for busy in sorted(self.working):
            self.it.done(busy, self.now)
        self.now += 1000
        while (key := self.it.take(self.now)) is not None:
            self.owed.discard(key)
            self.it.done(key, self.now)
        assert self.owed == set()


TestHistories = Histories.TestCase


@pytest.mark.parametrize("groups", [1, 2, 5])
def test_a_key_waits_for_at_most_one_key_of_each_other_group_per_place(groups: int) -> None:
    """However fast the others add, the k-th key of a group is among the next k x groups."""
    it = schedule()
    for number in range(3):
        it.add(("mine", number), 0)
    for step in range(3 * groups):
        for group in range(groups - 1):
            it.add((f"g{group}", step), 0)
        key = it.take(0)
        assert key is not None
        it.done(key, 0)
    assert all(it.take(0) != ("mine", number) for number in range(3))
