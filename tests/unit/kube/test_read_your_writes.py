"""When caches show what was written."""

from dataclasses import dataclass, field

from spotrun.kube.read_your_writes import MOST_LAG_SECONDS, OVERDUE_SECONDS, Horizon
from spotrun.kube.resource import Key

A, B = Key("ns", "a"), Key("ns", "b")


@dataclass
class Shown:
    """Caches, and a clock."""

    versions: dict[str, int] = field(default_factory=lambda: {"pods": 5, "jobs": 5})
    objects: dict[tuple[str, Key], int] = field(default_factory=dict)
    listed: dict[str, float] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)
    now: float = 100.0

    def last_version(self, resource: str) -> int:
        return self.versions[resource]

    def version_of(self, resource: str, key: Key) -> int | None:
        return self.objects.get((resource, key))

    def listed_at(self, resource: str) -> float:
        return self.listed.get(resource, 0.0)

    def moved_at(self, resource: str) -> float:
        return self.moved.get(resource, 0.0)

    def horizon(self) -> Horizon[str, str]:
        return Horizon(self, lambda: self.now)


def test_a_key_waits_for_all_that_was_written_for_it() -> None:
    seen = Shown()
    horizon = seen.horizon()
    assert horizon.caught_up("job")
    horizon.wrote("job", "pods", A, 7)
    horizon.wrote("job", "pods", B, 9)
    horizon.wrote("job", "jobs", A, 6)
    assert horizon.caught_up("another job")
    seen.versions["pods"] = 8
    assert not horizon.caught_up("job")
    seen.versions["pods"] = 9
    assert not horizon.caught_up("job")
    seen.versions["jobs"] = 6
    assert horizon.caught_up("job")
    seen.versions["pods"] = 0
    assert horizon.caught_up("job"), "what was reached once is not asked for again"


def test_an_object_older_than_our_write_is_waited_for_though_later_events_came() -> None:
    seen = Shown(versions={"pods": 20}, objects={("pods", A): 6})
    horizon = seen.horizon()
    horizon.wrote("job", "pods", A, 9)
    assert not horizon.caught_up("job")
    seen.objects["pods", A] = 10
    assert horizon.caught_up("job")


def test_an_object_that_is_gone_was_written_unless_it_must_show() -> None:
    seen = Shown(versions={"pods": 20})
    horizon = seen.horizon()
    horizon.wrote("job", "pods", A, 9)
    assert horizon.caught_up("job")
    horizon.wrote("job", "pods", A, 9, must_show=True)
    assert not horizon.caught_up("job")


def test_a_write_that_does_not_come_back_is_overdue_until_a_list_that_began_after_it() -> None:
    seen = Shown(objects={("pods", A): 6})
    horizon = seen.horizon()
    horizon.wrote("job", "pods", A, 9)
    seen.now += OVERDUE_SECONDS - 0.1
    assert horizon.overdue("job") == ()
    seen.now += 0.1
    assert horizon.overdue("job") == ("pods",)
    assert horizon.waited_seconds("job") == OVERDUE_SECONDS
    seen.listed["pods"] = 100.0
    assert not horizon.caught_up("job"), "a list that began with the write need not have seen it"
    seen.listed["pods"] = 100.1
    assert horizon.caught_up("job")


def test_a_watch_that_catches_up_is_given_time_before_all_is_listed_again() -> None:
    seen = Shown()
    horizon = seen.horizon()
    horizon.wrote("job", "pods", A, 9)
    began = seen.now
    while seen.now < began + MOST_LAG_SECONDS - 1:
        seen.now += 1
        seen.versions["pods"], seen.moved["pods"] = 6, seen.now
        assert horizon.overdue("job") == ()
    seen.now += 1
    assert horizon.overdue("job") == ("pods",), "it never gets there"


def test_a_watch_that_stands_still_or_has_passed_a_write_by_has_missed_it() -> None:
    seen = Shown()
    horizon = seen.horizon()
    horizon.wrote("still", "pods", A, 9)
    horizon.wrote("passed", "jobs", B, 9)
    seen.versions["jobs"], seen.objects["jobs", B] = 12, 6
    seen.moved["pods"] = seen.now
    seen.now += OVERDUE_SECONDS
    seen.moved["jobs"] = seen.now
    assert horizon.overdue("still") == ("pods",)
    assert horizon.overdue("passed") == ("jobs",)
