from datetime import UTC, datetime
from typing import Any, cast
from unittest.mock import Mock

import msgspec
import pytest

from spotrun.api.names import LABEL_JOB, LABEL_JOB_UID
from spotrun.kube.client import Client
from spotrun.kube.resource import Key
from spotrun.observe.caches import Caches
from spotrun.observe.naming import worker_name
from spotrun.observe.objects import JobObject, PodObject
from tests.decide_builders import a_spec

UID = "job-uid"
NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


@pytest.fixture
def caches() -> Caches:
    """Filled by hand; nothing is followed."""
    client = cast("Client", Mock())
    caches = Caches(
        client, namespace=None, wake=lambda _: None, clock=lambda: 0.0, wall=lambda: NOW
    )
    meta = {"name": "job", "namespace": "ns", "uid": UID, "resourceVersion": "1"}
    meta["creationTimestamp"] = "2026-03-02T11:00:00Z"
    content = {"metadata": meta, "spec": a_spec(2).manifest(), "status": {"nextSerial": 1}}
    caches._jobs.store.put(msgspec.json.decode(msgspec.json.encode(content), type=JobObject))
    return caches


def pod(serial: int, **meta: Any) -> PodObject:
    known = {
        "name": worker_name("job", UID, serial),
        "namespace": "ns",
        "uid": "p",
        "resourceVersion": "2",
        "labels": {str(LABEL_JOB): "job", str(LABEL_JOB_UID): UID},
        "ownerReferences": [{"uid": UID, "controller": True}],
        **meta,
    }
    return msgspec.convert({"metadata": known}, PodObject)


def test_what_a_worker_asks_for_is_what_its_job_says(caches: Caches) -> None:
    of = caches._job_of(pod(0))
    assert of is not None
    assert of[0] == a_spec(2)


@pytest.mark.parametrize(
    "stranger",
    [
        pytest.param(pod(1), id="of a number that was never given out"),
        pytest.param(pod(0, ownerReferences=[]), id="of no owner"),
        pytest.param(pod(0, name="job-x"), id="of another name"),
        pytest.param(pod(0, namespace="other"), id="of another namespace"),
    ],
)
def test_a_pod_that_only_looks_like_a_worker_asks_for_nothing(
    caches: Caches, stranger: PodObject
) -> None:
    assert caches._job_of(stranger) is None


async def test_a_job_that_trips_the_operator_keeps_nobody_waiting(
    caches: Caches, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def trip(*_: object) -> None:
        raise TypeError("a bug")

    monkeypatch.setattr(caches, "snapshot", trip)
    await caches.survey()
    assert "looking at ns/job failed" in caplog.text


@pytest.mark.parametrize(("trains", "looked_at"), [(True, []), (False, ["job"])])
async def test_of_thousands_that_train_none_is_looked_at_twice(
    caches: Caches, monkeypatch: pytest.MonkeyPatch, trains: bool, looked_at: list[str]
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(caches, "snapshot", lambda key, *_: seen.append(key.name))
    if trains:
        world = {"generation": 1, "members": "0-1", "switch": "2026-03-02T11:30:00Z"}
        job = caches._jobs.get("ns", "job")
        assert job is not None
        status = msgspec.Raw(msgspec.json.encode({"nextSerial": 2, "world": world}))
        meta = msgspec.structs.replace(job.metadata, resource_version="2")
        caches._jobs.store.put(msgspec.structs.replace(job, metadata=meta, status=status))

    await caches.survey()

    assert looked_at == seen


def test_what_was_read_of_a_job_goes_with_it_also_where_nobody_decides(caches: Caches) -> None:
    # A standby is asked by its pools whose workers were bound, and never for a snapshot.
    job = caches._jobs.get("ns", "job")
    assert caches._job_of(pod(0)) is not None

    caches._jobs._tell(caches._jobs.store.remove(Key("ns", "job")))

    assert caches._job_of(pod(0)) is None
    assert job is not None
    assert UID not in caches._readings._specs
    assert UID not in caches._readings._statuses


def test_what_was_read_of_a_job_is_forgotten_when_another_has_its_name(caches: Caches) -> None:
    old = caches._jobs.get("ns", "job")
    assert old is not None
    first = caches._readings.spec(old)
    new = msgspec.structs.replace(old, metadata=msgspec.structs.replace(old.metadata, uid="next"))

    caches._job_changed(old, old)
    assert caches._readings.spec(old) is first
    caches._job_changed(old, new)  # as a list shows it, when the deletion was not seen

    assert caches._readings.spec(old) is not first
