"""Bills when writes of them fail, when they cannot be read, and when jobs vanished meanwhile."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from spotrun.act.bills import BillWriter
from spotrun.api.names import FINALIZER_METERED, LABEL_JOB
from spotrun.kube.errors import Conflict, Forbidden, KubeError, NotFound
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Client
from spotrun.kube.watch.kopf_feed import Feed
from spotrun.money.units import Usd, UsdPerHour
from spotrun.observe.caches import Caches
from spotrun.observe.kube_objects import FED, PodObject
from spotrun.policies.cost.billing.codec import DATA_KEY, read
from spotrun.policies.cost.billing.lines import JobLine, Standing
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.stored.cost import Cost
from tests.support.jobs.builders import NOW, a_job, later
from tests.unit.kube.scripted import ScriptedTransport

KEY = Key("ns", "job")
TWO = Cost(usd=Usd(Decimal(2)), usd_per_hour=UsdPerHour(Decimal(36)), as_of=NOW)
LISTING = {"resourceVersion": "1"}


def job() -> JobSnapshot:
    return replace(a_job().snapshot(), uid="uid-1")


class Place:
    """A namespace with bills, each written under a version, and an operator that keeps them."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.refuses: list[KubeError] = []
        self.writes = 0
        self.caches = Caches(
            Client(ScriptedTransport(self._answer), field_manager="test"),
            namespace=None,
            wake=lambda _: None,
            feed=Feed(FED),
            clock=lambda: 0.0,
            wall=lambda: NOW,
        )

    def operator(self) -> BillWriter:
        client = Client(ScriptedTransport(self._answer), field_manager="test")
        horizon: Horizon[Key, Resource] = Horizon(self.caches, lambda: 0.0)
        return BillWriter(
            client, self.caches, horizon, "home", leads=lambda: True, wall=lambda: NOW
        )

    @property
    def line(self) -> JobLine:
        [stored] = self.stored.values()
        [line] = read(stored["data"][DATA_KEY]).jobs.values()
        return line

    def leave_pod(self, deleted_at: str) -> None:
        """A pod of the job is told to go, and our finalizer holds it."""
        meta = {
            "name": "job-0",
            "namespace": "ns",
            "uid": "p",
            "resourceVersion": "5",
            "labels": {str(LABEL_JOB): "job"},
            "finalizers": [FINALIZER_METERED],
            "ownerReferences": [{"uid": "uid-1", "name": "job", "controller": True}],
            "deletionTimestamp": deleted_at,
            "deletionGracePeriodSeconds": 30,
        }
        pod = msgspec.convert({"metadata": meta}, PodObject)
        self.caches.jobs.reflectors["pods"].store.put(pod)

    def _answer(self, method: str, path: str, body: Any) -> Any:
        name = path.rpartition("/")[2].partition("?")[0]
        if method == "GET" and name == "configmaps":
            return {"metadata": LISTING, "items": list(self.stored.values())}
        if method == "GET":
            if name not in self.stored:
                raise NotFound(f'configmaps "{name}" not found')
            return self.stored[name]
        if self.refuses:
            raise self.refuses.pop(0)
        self.writes += 1
        if method == "POST":
            name, body = body["metadata"]["name"], {**body}
        else:
            assert body[0]["value"] == self.stored[name]["metadata"]["resourceVersion"]
            body = {**self.stored[name], "data": body[1]["value"]}
        body["metadata"] = {**body["metadata"], "resourceVersion": str(self.writes)}
        self.stored[name] = body
        return body


async def test_pods_of_a_deleted_job_wait_for_its_bill_but_not_for_ever() -> None:
    place = Place()
    operator = place.operator()
    operator.note(job(), JobState(cost=TWO))
    place.refuses = [Forbidden("no right") for _ in range(9)]
    for _ in range(2):
        with pytest.raises(Forbidden):
            await operator.close(KEY)
    await operator.close(KEY)
    assert place.writes == 0


async def test_a_bill_that_was_changed_meanwhile_is_read_again_before_pods_go() -> None:
    place = Place()
    operator = place.operator()
    operator.note(job(), JobState(cost=TWO))
    operator.note_deleted(job(), None)
    place.refuses = [Conflict("changed")]
    await operator.close(KEY)
    assert (place.writes, place.line.standing) == (1, Standing.GONE)
    await operator.close(KEY)
    assert place.writes == 1


async def test_the_next_operator_charges_a_job_until_its_pods_were_told_to_go() -> None:
    place = Place()
    first = place.operator()
    first.note(job(), JobState(cost=TWO))
    await first.close(KEY)
    place.leave_pod(f"{later(130):%Y-%m-%dT%H:%M:%SZ}")  # 100 s, and its grace
    await place.operator().close(KEY)
    assert (place.line.standing, place.line.as_of) == (Standing.GONE, later(100))
    assert sum(place.line.charged.values()) == 30_000
    await place.operator().close(KEY)
    assert place.writes == 2


async def test_a_bill_that_cannot_be_read_is_not_overwritten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    place = Place()
    operator = place.operator()
    operator.note(job(), JobState(cost=TWO))
    await operator.close(KEY)
    [stored] = place.stored.values()
    stored["data"] = {DATA_KEY: "{"}
    await place.operator().close(KEY)
    assert place.writes == 1
    assert "cannot be read as a bill" in caplog.text
    assert "or delete the ConfigMap" in caplog.text


async def test_a_job_that_has_cost_nothing_makes_no_bill() -> None:
    place = Place()
    operator = place.operator()
    operator.note(job(), JobState())
    operator.note_deleted(job(), None)
    await operator.close(KEY)
    assert not place.stored
