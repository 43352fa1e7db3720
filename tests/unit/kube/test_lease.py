"""The leader's own clock: what no test in real time can show."""

import asyncio
import datetime
from collections.abc import Callable
from typing import Any

import pytest

from spotrun.kube.clock import boot_seconds
from spotrun.kube.errors import Ambiguous, NotFound
from spotrun.kube.lease import Election, Terms
from spotrun.kube.rest.client import Client
from tests.unit.kube.scripted import Answer, ScriptedTransport

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


class Server:
    """A lease, and whether the server can be reached."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.reachable = True
        self.version = 1

    def __call__(self, method: str, _: str, body: Any) -> Any:
        if not self.reachable:
            raise Ambiguous("injected")
        if method == "GET":
            if self.lease is None:
                raise NotFound("no lease")
            return self.lease
        self.version += 1
        old = (self.lease or {}).get("spec", {})
        meta = {"name": "leader", "resourceVersion": str(self.version)}
        self.lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": meta,
            "spec": old | body["spec"],
        }
        return self.lease


def _client(answer: Answer) -> Client:
    return Client(ScriptedTransport(answer), field_manager="test")


class Candidate:
    """An election whose pauses end when the test says so."""

    def __init__(self, server: Server, name: str, clock: Callable[[], float]) -> None:
        self.election = Election(
            _client(server),
            namespace="ns",
            name="leader",
            identity=name,
            clock=clock,
            wall=lambda: NOON + datetime.timedelta(seconds=clock()),
            roll=lambda: 0.0,
            sleep=self._sleep,
        )
        self.pauses: list[float] = []
        self._go = asyncio.Event()
        self._asleep = asyncio.Event()

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._asleep.set()
        await self._go.wait()
        self._go.clear()

    async def settled(self) -> None:
        await asyncio.wait_for(self._asleep.wait(), 5)
        self._asleep.clear()

    async def round(self) -> None:
        self._go.set()
        await self.settled()


async def test_a_frozen_leader_does_not_lead_when_it_wakes() -> None:
    now = [100.0]
    one = Candidate(Server(), "one", lambda: now[0])
    async with one.election as election:
        await one.settled()
        assert election.leads
        now[0] += 9.9
        assert election.leads
        now[0] += 0.1  # not a line of its own code has run since
        assert not election.leads
        assert election.held.is_set(), "an event alone would be believed for too long"
        await one.round()
        assert election.leads, "nobody else took it, so the next renewal counts"


async def test_a_leader_counts_from_before_its_renewal_was_sent() -> None:
    now = [100.0]
    server = Server()

    def slow(*request: Any) -> Any:
        now[0] += 4
        return server(*request)

    one = Candidate(server, "one", lambda: now[0])
    one.election._client = _client(slow)
    async with one.election as election:
        await one.settled()
        assert now[0] == 108  # a look and a write
        now[0] = 109.9
        assert election.leads
        now[0] = 110
        assert not election.leads


async def test_a_leader_without_a_server_gives_up_in_time() -> None:
    now = [100.0]
    server = Server()
    one = Candidate(server, "one", lambda: now[0])
    async with one.election as election:
        await one.settled()
        server.reachable = False
        for _ in range(5):
            assert election.held.is_set()
            now[0] += one.pauses[-1]
            await one.round()
        assert election.lost.is_set()
        assert now[0] == 110.0
        assert one.pauses == [2, 2, 2, 2, 2, 2]


async def test_a_mistake_of_ours_ends_the_lead_but_not_the_candidate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [100.0]
    server, mistakes = Server(), [LookupError("a mistake of ours")] * 6

    def mistaken(*request: Any) -> Any:
        raise mistakes.pop()

    one = Candidate(server, "one", lambda: now[0])
    async with one.election as election:
        await one.settled()
        scripted, one.election._client = one.election._client, _client(mistaken)
        while election.held.is_set():
            now[0] += one.pauses[-1]
            await one.round()
        assert election.lost.is_set()
        assert "a mistake of ours" in caplog.text

        one.election._client = scripted
        await one.round()
        assert election.leads


async def test_a_pause_ends_when_the_lead_ends() -> None:
    now = [100.0]
    server = Server()
    one = Candidate(server, "one", lambda: now[0])
    async with one.election:
        await one.settled()
        server.reachable = False
        now[0] += 9.5
        await one.round()
        assert one.pauses[-1] == 0.5


async def test_a_candidate_waits_from_what_it_saw_not_from_what_was_written() -> None:
    now = {"one": 100.0, "two": 5_000.0}
    server = Server()
    one = Candidate(server, "one", lambda: now["one"])
    two = Candidate(server, "two", lambda: now["two"])
    async with one.election:
        await one.settled()
        async with two.election as election:
            await two.settled()
            for _ in range(20):  # a leader that renews is never overtaken
                now["one"] += 2
                now["two"] += 2
                await one.round()
                await two.round()
            assert not election.leads
            now["two"] += 14.9
            await two.round()
            assert not election.leads
            now["two"] += 0.1
            await two.round()
            assert election.leads
            assert not one.election.leads or now["one"] < 150


async def test_what_people_read_in_the_lease() -> None:
    server = Server()
    one = Candidate(server, "one", lambda: 100.0)
    async with one.election:
        await one.settled()
        assert server.lease is not None
        assert server.lease["spec"] == {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T12:01:40.000000Z",
            "renewTime": "2026-01-01T12:01:40.000000Z",
            "leaseTransitions": 0,
        }
    assert server.lease["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("terms", [(10, 10, 2), (15, 16, 2), (15, 10, 10)])
def test_terms_in_which_two_could_lead_are_refused(terms: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="give up before its lease ends"):
        Terms(*terms)


def test_the_clock_only_goes_forward() -> None:
    assert boot_seconds() <= boot_seconds()
