"""Waiting for a job: what may happen to it, and to the cluster, meanwhile."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from spotrun.cli.cluster.session import Cluster
from spotrun.cli.cluster.troubles import NoSuchJob, Refused
from spotrun.cli.jobs import actions, watching
from spotrun.cli.jobs.acting import _suspended_or_over
from spotrun.cli.jobs.actions import checkpoint, is_saved, is_suspended, until
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.reading import everything_of
from spotrun.cli.jobs.watching import states_of
from spotrun.kube.errors import Forbidden, Retryable
from tests.support.screens.shown_jobs import shown_job

CLUSTER = cast("Cluster", None)


def made(uid: str, phase: str = "Running") -> Job:
    job = shown_job(status={"phase": phase})
    return msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, uid=uid))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Job | Exception]:
    """What the cluster answers, one after another; its watches end at once."""
    answers: list[Job | Exception] = []

    async def one_job(_: Cluster, __: str) -> Job:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def changes(_: Cluster, __: Job) -> AsyncGenerator[Job | None, None]:
        if answers is None:
            yield None

    monkeypatch.setattr(watching, "one_job", one_job)
    monkeypatch.setattr(watching, "_changes", changes)
    monkeypatch.setattr(watching, "_PAUSE_SECONDS", 0)
    return answers


async def seen(uid: str = "") -> list[str]:
    return [job.status.phase async for job in states_of(CLUSTER, "gpt", uid)]


async def test_a_job_ends_with_its_deletion(told: list[Job | Exception]) -> None:
    told += [made("1"), NoSuchJob("gone")]
    assert await seen() == ["Running"]
    told += [NoSuchJob("there was none")]
    with pytest.raises(NoSuchJob):
        await seen()


async def test_a_job_that_is_made_anew_is_another(told: list[Job | Exception]) -> None:
    told += [made("1"), made("2", "Suspended")]
    assert await seen("1") == ["Running"]


async def test_a_cluster_may_be_silent_for_a_while(
    told: list[Job | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    told += [made("1"), Retryable("away"), made("1", "Failed"), NoSuchJob("gone")]
    assert await seen() == ["Running", "Failed"]
    told += [Retryable("never there")]
    with pytest.raises(Retryable):
        await seen()
    monkeypatch.setattr(watching, "_PATIENCE_SECONDS", -1)
    told += [made("1"), Retryable("away for too long")]
    with pytest.raises(Retryable):
        await seen()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (NoSuchJob("gone"), "it was deleted before it was suspended"),
        (made("2", "Suspended"), "it was deleted before it was suspended"),
        (made("1", "Succeeded"), "it has succeeded before it was suspended"),
    ],
    ids=["deleted", "made anew", "over"],
)
async def test_what_became_of_it_is_said(
    told: list[Job | Exception], answer: Job | Exception, said: str
) -> None:
    told += [made("1"), answer]
    with pytest.raises(Refused, match=said):
        await until(CLUSTER, made("1"), is_suspended, "suspended")


async def test_a_job_that_is_over_meanwhile_is_stopped_as_well(
    told: list[Job | Exception],
) -> None:
    told += [made("1"), made("1", "Succeeded")]
    assert (await _suspended_or_over(CLUSTER, made("1"))).status.phase == "Succeeded"


async def test_ctrl_c_while_it_is_stopped_says_where_it_stays(
    told: list[Job | Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    told += [made("1")] * 1000
    stopping = asyncio.create_task(_suspended_or_over(CLUSTER, made("1")))
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.gather(stopping, return_exceptions=True)
    assert "it is suspended, not deleted" in capsys.readouterr().err


@dataclass
class _Client:
    """Knows a job, and lets nobody read anything else."""

    async def get(self, *_: Any, **__: Any) -> Job:
        return made("1")

    async def list_all(self, *_: Any, **__: Any) -> Iterator[Any]:
        raise Forbidden("pods is forbidden", status=403)


async def test_a_job_is_shown_without_the_pods_that_may_not_be_read() -> None:
    cluster = Cluster(cast("Any", _Client()), cast("Any", None), "ml", "here")
    facts = await everything_of(cluster, "gpt")
    assert (facts.job.metadata.uid, facts.pods) == ("1", ())


async def test_a_checkpoint_is_asked_for_by_the_time_of_the_api_server(
    told: list[Job | Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = shown_job()
    newest, order = {"name": "new", "step": 1, "time": ""}, {"time": "2026-03-01T00:00:01Z"}
    for orders in (4, 5):
        answered = {
            "checkpoint": {**newest, "orders": orders},
            "orders": {**order, "checkpoint": 5},
        }
        told.append(shown_job(status=answered))
    patched: list[dict[str, Any]] = []

    async def patch(_: Cluster, job: Job, change: dict[str, Any]) -> Job:
        patched.append(change)
        return job

    server = SimpleNamespace(now=lambda: datetime(2026, 3, 1, tzinfo=UTC))
    cluster = cast("Cluster", SimpleNamespace(client=SimpleNamespace(clock=server)))
    monkeypatch.setattr(actions, "patched", patch)
    assert (await checkpoint(cluster, before, seconds=5)).orders == 5
    [change] = patched
    assert list(change["metadata"]["annotations"].values()) == ["2026-03-01T00:00:00Z"]


ASKED = "2026-03-01T08:00:00.5Z"


@pytest.mark.parametrize(
    ("orders", "newest", "saved"),
    [
        ({"checkpoint": 2, "time": "2026-03-01T08:00:01Z"}, {"orders": 1}, False),
        ({"checkpoint": 2, "time": "2026-03-01T08:00:01Z"}, {"orders": 2}, True),
        ({"checkpoint": 2, "time": "2026-03-01T08:00:01Z"}, {}, True),
        ({"checkpoint": 2, "time": "2026-03-01T08:00:03Z"}, {}, False),
        ({"checkpoint": 1, "time": "2026-03-01T07:00:00Z"}, {"orders": 1}, False),
        ({}, {"orders": 0}, False),
    ],
    ids=["in flight", "begun since", "not said", "not said, and older", "not seen yet", "no order"],
)
def test_a_checkpoint_counts_that_was_begun_after_it_was_asked_for(
    orders: dict[str, object], newest: dict[str, object], *, saved: bool
) -> None:
    newest = {"name": "step-9.g1", "step": 9, "time": "2026-03-01T08:00:02Z", **newest}
    job = shown_job(status={"checkpoint": newest, "orders": orders})
    assert is_saved(job, asked=ASKED) is saved
