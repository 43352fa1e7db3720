"""Whether somebody still leads, by what two looks at the Lease show."""

from collections.abc import Iterable
from typing import Any, cast

import pytest

from spotrun.act.uninstall import UndoneError, until_nobody_leads
from spotrun.kube.errors import NotFound
from spotrun.kube.lease import Lease, LeaseSpec
from spotrun.kube.resource import Meta
from spotrun.kube.rest.client import Client


class Looks:
    """A client that shows one Lease after another, and then the last one for ever."""

    def __init__(self, leases: Iterable[Lease | None]) -> None:
        self._leases = list(leases)
        self.waited: list[float] = []

    async def get(self, *_: Any, **__: Any) -> Lease:
        shown = self._leases.pop(0) if len(self._leases) > 1 else self._leases[0]
        if shown is None:
            raise NotFound("there is none")
        return shown

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)

    async def until_nobody_leads(self, attempts: int = 1) -> None:
        client = cast("Client", self)
        await until_nobody_leads(client, "home", attempts=attempts, sleep=self.sleep)


def lease(version: int, holder: str = "a", seconds: int = 15) -> Lease:
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=seconds)
    return Lease(Meta(name="spotrun", resource_version=str(version)), spec)


async def test_where_there_is_no_lease_nobody_is_waited_for() -> None:
    looks = Looks([None])
    await looks.until_nobody_leads()
    assert looks.waited == []


async def test_a_dead_leader_is_waited_for_as_long_as_it_may_be_silent() -> None:
    looks = Looks([lease(7, seconds=40)])
    await looks.until_nobody_leads()
    assert looks.waited == [40]


async def test_a_lease_that_was_let_go_is_watched_until_a_standby_would_have_it() -> None:
    looks = Looks([lease(7, holder="", seconds=1)])
    await looks.until_nobody_leads()
    assert looks.waited == [5]


async def test_a_lease_that_goes_away_is_nobodys() -> None:
    looks = Looks([lease(7), None])
    await looks.until_nobody_leads()
    assert looks.waited == [15]


async def test_who_renews_is_alive() -> None:
    looks = Looks([lease(7), lease(8)])
    with pytest.raises(
        UndoneError, match=r"is the leader in the namespace home .*\(a\): stop it first"
    ):
        await looks.until_nobody_leads()


async def test_who_takes_over_from_one_that_ends_is_alive() -> None:
    looks = Looks([lease(7), lease(8, holder="", seconds=1), lease(9, holder="b")])
    with pytest.raises(UndoneError, match=r"\(b\)"):
        await looks.until_nobody_leads(attempts=2)


async def test_one_that_ends_in_time_is_waited_for() -> None:
    looks = Looks([lease(7), lease(8), lease(9, holder="", seconds=1)])
    await looks.until_nobody_leads(attempts=8)
    assert looks.waited == [15, 15, 5]
