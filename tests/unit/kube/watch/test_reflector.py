"""What the reflector makes of odd servers and of bugs around it."""

import asyncio
from typing import Any

import msgspec
import pytest

from spotrun.kube.errors import Silent
from spotrun.kube.resource import Meta, Resource
from spotrun.kube.rest.client import Client, Selection
from spotrun.kube.watch.reflector import MOST_REFUSALS, Reflector
from tests.unit.kube.scripted import ScriptedTransport

THINGS = Selection(Resource("x.io", "v1", "things"))


class Thing(msgspec.Struct, frozen=True):
    metadata: Meta


class EnoughError(BaseException):
    """Ends a reflector, which nothing else may."""


def thing(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


def page(version: str, *items: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": version}, "items": list(items)}


class Run:
    """A reflector that is run for so many rounds, on a clock that only its pauses move."""

    def __init__(self, transport: ScriptedTransport, *, rounds: int, **options: Any) -> None:
        self.said: list[str] = []
        self.pauses: list[float] = []
        self.now = 1000.0
        self._rounds = rounds
        self.reflector = Reflector(
            Client(transport, field_manager="test"),
            THINGS,
            Thing,
            options.pop("handler", self.handle),
            clock=lambda: self.now,
            roll=lambda: 0.0,
            sleep=self.sleep,
            **options,
        )

    def handle(self, old: Thing | None, new: Thing | None) -> None:
        item = new or old
        assert item is not None
        self.said.append(("-" if new is None else "~" if old else "+") + item.metadata.name)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        if len(self.pauses) == self._rounds:
            raise EnoughError

    def run(self) -> None:
        with pytest.raises(EnoughError):
            asyncio.run(self.reflector.run())


def test_streams_that_end_at_once_are_not_opened_in_a_hot_loop() -> None:
    transport = ScriptedTransport(lambda *_: page("5"))
    it = Run(transport, rounds=9)
    it.run()
    assert it.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 7.5, 7.5]


def test_a_stream_that_said_something_starts_the_pauses_afresh() -> None:
    streams = [[], [], [{"type": "ADDED", "object": thing("a", 6)}], []]
    it = Run(ScriptedTransport(lambda *_: page("5"), streams), rounds=4)
    it.run()
    assert it.pauses == [0.1, 0.2, 0.0, 0.1]
    assert it.said == ["+a"]


def test_silence_is_no_failure_and_the_watch_goes_on_where_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    added = {"type": "ADDED", "object": thing("a", 6)}
    streams: list[list[Any] | Exception] = [[], Silent("hush"), Silent("hush"), [added]]
    it = Run(ScriptedTransport(lambda *_: page("5"), streams), rounds=4)
    it.run()
    assert it.pauses == [0.1, 0.0, 0.0, 0.0]
    assert it.said == ["+a"]
    assert it.reflector.failures == 0
    assert [record.message for record in caplog.records if "hush" in record.message] == []


def test_an_open_watch_on_which_nothing_happens_is_a_sign_of_life() -> None:
    it = Run(ScriptedTransport(lambda *_: page("5"), [Silent("hush")] * 3), rounds=3)
    ages: list[float] = []
    real_sleep = it.sleep

    async def sleep(seconds: float) -> None:
        ages.append(it.reflector.age_seconds())
        it.now += 100
        await real_sleep(seconds)

    it.reflector._sleep = sleep
    it.run()
    assert ages == [0.0, 0.0, 0.0]


def test_a_handler_that_raises_blinds_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def handler(_: Thing | None, new: Thing | None) -> None:
        assert new is not None
        said.append(new.metadata.name)
        raise ValueError("a bug")

    said: list[str] = []
    transport = ScriptedTransport(lambda *_: page("5", thing("a", 1), thing("b", 2)))
    it = Run(transport, rounds=1, handler=handler)
    it.run()
    assert said == ["a", "b"]
    assert len(it.reflector.store) == 2
    assert "the handler of things failed" in caplog.text


def test_an_index_that_raises_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    def index(_: Thing) -> list[str]:
        raise ValueError("a bug")

    transport = ScriptedTransport(lambda *_: page("5", thing("a", 1)))
    it = Run(transport, rounds=3, indices={"i": index})
    it.run()
    assert it.pauses == [0.1, 0.2, 0.4]
    assert "the reflector of things failed" in caplog.text


@pytest.mark.parametrize("answer", [{}, [], page("abc"), page(""), "<html>"])
def test_nonsense_instead_of_a_list_is_waited_out(answer: Any) -> None:
    it = Run(ScriptedTransport(lambda *_: answer), rounds=3)
    it.run()
    assert it.pauses == [0.1, 0.2, 0.4]
    assert not it.reflector.synced.is_set()


def test_bookmarks_advance_the_version_and_never_set_it_back() -> None:
    def bookmark(version: int) -> dict[str, Any]:
        return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}

    streams = [[bookmark(9)], [bookmark(7)]]
    it = Run(ScriptedTransport(lambda *_: page("5"), streams), rounds=2)
    it.run()
    assert it.reflector.last_version == 9


def added(name: str, version: int) -> dict[str, Any]:
    return {"type": "ADDED", "object": thing(name, version)}


def deleted(name: str, version: int) -> dict[str, Any]:
    return {"type": "DELETED", "object": thing(name, version)}


def test_all_that_goes_at_one_version_is_gone_and_replays_change_nothing() -> None:
    """etcd takes what a lease held away in one revision, such as Events that expire together."""
    stream = [added("d", 6), *(deleted(name, 7) for name in "abca"), added("e", 8), added("d", 6)]
    items = [thing(name, number) for number, name in enumerate("abc", start=1)]
    it = Run(ScriptedTransport(lambda *_: page("5", *items), [stream]), rounds=1)
    it.run()
    assert it.said == ["+a", "+b", "+c", "+d", "-a", "-b", "-c", "+e"]


def test_what_a_list_or_a_bookmark_has_covered_is_not_told_again() -> None:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    stream = [deleted("a", 5), bookmark, deleted("a", 9)]
    it = Run(ScriptedTransport(lambda *_: page("5", thing("a", 1)), [stream]), rounds=1)
    it.run()
    assert it.said == ["+a"]


class Restored:
    """An API server whose etcd is restored from a copy after the first watch."""

    def __init__(self) -> None:
        self.lists = 0
        self.now_at = page("50", thing("kept", 3), thing("lost", 40), thing("changed", 45))

    def answer(self, *_: Any) -> Any:
        self.lists += 1
        return self.now_at

    def restore(self, version: int) -> None:
        self.now_at = page(str(version), thing("kept", 3), thing("changed", 4), thing("new", 9))


def test_an_older_state_is_taken_once_it_was_refused_often_enough() -> None:
    server, rewinds = Restored(), list[float]()
    it = Run(ScriptedTransport(server.answer, [Silent("hush")]), rounds=1)
    it.reflector.rewound = lambda: rewinds.append(it.now)
    it.run()
    server.restore(10)
    it.said.clear()

    refusals = []
    for rounds in range(2, MOST_REFUSALS + 3):
        it._rounds = rounds
        it.run()
        refusals.append(it.reflector.refusals)

    assert refusals == [*range(1, MOST_REFUSALS + 1), 0]
    assert it.said == ["-lost", "~kept", "~changed", "+new"]
    assert it.reflector.last_version == 10
    assert len(rewinds) == 1
    assert 10 < rewinds[0] - 1000 < 30


def test_a_server_that_lags_and_catches_up_is_never_believed() -> None:
    server, rewinds = Restored(), list[float]()
    it = Run(ScriptedTransport(server.answer, [Silent("hush")]), rounds=1)
    it.reflector.rewound = lambda: rewinds.append(it.now)
    it.run()
    known = server.now_at
    for rounds in range(2, 60):
        lags = rounds % MOST_REFUSALS
        if lags:
            server.restore(10)
        else:
            server.now_at = known
        it._rounds = rounds
        it.run()
    assert rewinds == []
    assert {key.name for key in it.reflector.store.names()} == {"kept", "lost", "changed"}


def test_null_items_are_none() -> None:
    answer = {"metadata": {"resourceVersion": "5"}, "items": None}
    it = Run(ScriptedTransport(lambda *_: answer), rounds=1)
    it.run()
    assert it.reflector.synced.is_set()


def test_a_server_that_never_ends_a_stream_does_not_put_off_the_next_list() -> None:
    lists = 0

    def answer(*_: Any) -> Any:
        nonlocal lists
        lists += 1
        return page(str(5 + lists))

    streams = [[{"type": "ADDED", "object": thing("a", 6)}]] * 4
    it = Run(ScriptedTransport(answer, streams), rounds=4)
    real_sleep = it.sleep

    async def sleep(seconds: float) -> None:
        it.now += 1000  # every stream lasts longer than it should
        await real_sleep(seconds)

    it.reflector._sleep = sleep
    it.run()
    assert lists == 4
