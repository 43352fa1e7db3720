"""The places of nodes on the page: read once, again after a failure, and forbidden once."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from spotrun.cli.cluster.session import Cluster
from spotrun.cli.page.places import Places
from spotrun.kube.errors import Forbidden, KubeError, NotFound, Retryable
from spotrun.kube.rest.client import Client
from spotrun.observe.kube_objects import PodObject
from tests.unit.kube.scripted import ScriptedTransport

PATIENCE_SECONDS = 10.0
LABELS = {"topology.kubernetes.io/zone": "z"}


def pod(number: int, node: str | None) -> PodObject:
    meta = {"name": f"p{number}", "namespace": "ml", "uid": "u", "resourceVersion": "1"}
    spec = {"nodeName": node} if node else {}
    return msgspec.convert({"metadata": meta, "spec": spec}, PodObject)


class Page:
    """Places that are followed, and what was told of them."""

    def __init__(self, answer: Callable[[str], None] = lambda _: None) -> None:
        transport = ScriptedTransport(self._answer)
        cluster = Cluster(Client(transport, field_manager="test"), transport, "ml", "context")
        self.places = Places(cluster, self._told, self._hide, again_seconds=0.0)
        self.asked = list[str]()
        self.told = list[str]()
        self.hidden = list[str]()
        self.pods = list[PodObject]()
        self.news = asyncio.Event()
        self._changed = asyncio.Event()
        self._may_answer = answer

    def _answer(self, method: str, path: str, body: Any) -> Any:
        name = path.rpartition("/")[2]
        self.asked.append(name)
        self._may_answer(name)
        return {"metadata": {"name": name, "resourceVersion": "1", "labels": LABELS}}

    def _told(self, one: PodObject) -> None:
        self.told.append(one.metadata.name)
        self._changed.set()

    def _hide(self, what: str) -> None:
        self.hidden.append(what)

    async def until(self, told: int) -> None:
        """Follow until so many pods have been told of."""
        following = asyncio.create_task(self.places.follow(self.pods, self.news))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.told) < told:
                self._changed.clear()
                await self._changed.wait()
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


@pytest.mark.parametrize("error", [KubeError("broken", status=500), Retryable("away")], ids=str)
async def test_a_read_that_failed_is_made_again(error: KubeError) -> None:
    errors = [error, error]

    def answer(_: str) -> None:
        if errors:
            raise errors.pop()

    page = Page(answer)
    page.pods += [pod(0, "a")]
    await page.until(told=1)
    assert page.asked == ["a", "a", "a"]
    assert page.places.of(page.pods[0]).zone == "z"
    assert page.hidden == []


async def test_rights_that_are_missing_are_told_once_and_nothing_more_is_asked() -> None:
    def answer(_: str) -> None:
        raise Forbidden("no right")

    page = Page(answer)
    page.pods += [pod(0, "a"), pod(1, "b")]
    await asyncio.wait_for(page.places.follow(page.pods, page.news), PATIENCE_SECONDS)
    assert (page.asked, page.told) == (["a"], [])
    assert [one.split(":")[0] for one in page.hidden] == ["Your rights do not let you read nodes"]


async def test_each_node_is_read_once_however_many_there_are_and_one_that_is_gone_is_nowhere() -> (
    None
):
    def answer(name: str) -> None:
        if name == "n3":
            raise NotFound('nodes "n3" not found')

    page = Page(answer)
    page.pods += [*(pod(number, f"n{number}") for number in range(40)), pod(40, None)]
    await page.until(told=40)
    assert sorted(page.asked) == sorted({f"n{number}" for number in range(40)})
    assert [page.places.of(page.pods[number]).zone for number in (2, 3, 39)] == ["z", "-", "z"]
