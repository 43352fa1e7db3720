"""Which jobs metrics.k8s.io is asked about, how often, and what is made of its answers."""

from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from spotrun.api.names import Phase
from spotrun.kube.errors import Forbidden, KubeError, NotFound, Retryable
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.money.shares import Resources
from spotrun.observe.kube_objects import PodObject
from spotrun.observe.telemetry.metrics_server import (
    ASK_SECONDS,
    IGNORED_SECONDS,
    KEPT_SECONDS,
    REFUSED_SECONDS,
    Usage,
)
from spotrun.state.snapshot import JobSnapshot
from spotrun.wire import Progress
from tests.support.jobs.builders import JobBuilder, a_job
from tests.unit.kube.scripted import ScriptedTransport
from tests.unit.observe.mute_jobs import a_mute_job, a_mute_worker

LOOK_SECONDS = 10.0
HEARD = IGNORED_SECONDS + 3 * ASK_SECONDS
"""Three answers have come this long after a change."""


def a_pod(worker_id: int, **resources: Any) -> PodObject:
    meta = {"name": f"job-{worker_id}", "uid": f"uid-{worker_id}"}
    container = {"name": "trainer", "resources": resources}
    return msgspec.convert({"metadata": meta, "spec": {"containers": [container]}}, PodObject)


@dataclass
class Cluster:
    """Its pods, what they use, and what the API server says of that."""

    used: dict[str, str] = field(default_factory=lambda: {"job-0": "500m", "job-1": "900m"})
    pods: list[PodObject] = field(
        default_factory=lambda: [a_pod(n, requests={"cpu": "1"}) for n in (0, 1)]
    )
    refusal: KubeError | None = None
    measured_at: str = ""  # always the same time, if given
    now: float = 1000.0
    asked: list[str] = field(default_factory=list)
    woken: list[Key] = field(default_factory=list)

    def answer(self, _: str, path: str, __: object) -> Any:
        self.asked.append(path)
        if self.refusal is not None:
            raise self.refusal
        return {"metadata": {}, "items": [{"metadata": 7}, *map(self._measured, self.used)]}

    def _measured(self, pod: str) -> dict[str, Any]:
        container = {"name": "trainer", "usage": {"cpu": self.used[pod]}}
        moment = self.measured_at or str(self.now)
        return {"metadata": {"name": pod}, "timestamp": moment, "containers": [container]}

    def usage(self) -> Usage:
        client = Client(ScriptedTransport(self.answer), field_manager="spotrun")
        return Usage(
            client, clock=lambda: self.now, wake=self.woken.append, pods_of=lambda _: self.pods
        )


@dataclass
class Watch:
    """A job that is looked at every few seconds."""

    cluster: Cluster = field(default_factory=Cluster)

    def __post_init__(self) -> None:
        self._usage = self.cluster.usage()

    async def over(self, seconds: float, job: JobBuilder) -> JobSnapshot:
        """The job as it is seen after that time."""
        end = self.cluster.now + seconds
        while self.cluster.now < end:
            self._usage.added_to(job.snapshot())
            self.cluster.now += LOOK_SECONDS
            await self._usage.refresh()
        return self._usage.added_to(job.snapshot())


def used(job: JobSnapshot) -> list[float | None]:
    return [worker.used.cpu if worker.used is not None else None for worker in job.workers]


async def test_what_workers_use_that_tell_nothing_is_asked_once_a_minute() -> None:
    watch = Watch()
    seen = await watch.over(HEARD, a_mute_job())
    assert (seen.is_mute, seen.use_unknown, used(seen)) == (True, "", [0.5, 0.9])
    assert watch.cluster.asked == ["/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods"] * 4
    assert set(watch.cluster.woken) == {Key("ns", "job")}


async def test_the_minutes_after_a_change_are_ignored() -> None:
    watch, job = Watch(), a_mute_job()
    early = await watch.over(IGNORED_SECONDS - LOOK_SECONDS, job)
    assert (early.is_mute, watch.cluster.asked) == (False, [])
    assert used(await watch.over(2 * LOOK_SECONDS + 2 * ASK_SECONDS, job)) == [0.5, 0.9]
    changed = replace(job, workers={n: a_mute_worker(n, arrived=2) for n in (0, 1)})
    changed = changed.with_world("0-1", 2)
    assert used(await watch.over(IGNORED_SECONDS, changed)) == [None, None]
    assert used(await watch.over(HEARD - IGNORED_SECONDS, changed)) == [0.5, 0.9]


async def test_three_samples_are_awaited_and_outliers_left_out() -> None:
    watch, job = Watch(), a_mute_job()
    assert used(await watch.over(HEARD - 2 * ASK_SECONDS, job)) == [None, None]
    watch.cluster.used["job-0"] = "1"
    assert used(await watch.over(ASK_SECONDS, job)) == [0.5, 0.9]
    watch.cluster.used["job-0"] = "500m"
    assert used(await watch.over(ASK_SECONDS, job)) == [0.5, 0.9]


async def test_what_was_not_measured_anew_is_one_sample() -> None:
    watch = Watch(Cluster(measured_at="2026-03-02T12:00:00Z"))
    assert used(await watch.over(HEARD, a_mute_job())) == [None, None]


async def test_of_a_pod_that_is_not_in_the_answer_nothing_is_known() -> None:
    watch, job = Watch(), a_mute_job()
    await watch.over(HEARD, job)
    del watch.cluster.used["job-1"]
    assert used(await watch.over(ASK_SECONDS, job)) == [0.5, None]


def somebody_tells(job: JobBuilder) -> JobBuilder:
    told = a_mute_worker(1, progress=Progress(1, 10))
    return replace(job, workers={**job.workers, 1: told})


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(a_mute_job(scaling={"mode": "Manual"}), id="its size is somebody else's"),
        pytest.param(a_mute_job(max=2, min=2), id="it has one size"),
        pytest.param(somebody_tells(a_mute_job()), id="one of its workers tells of steps"),
        pytest.param(
            replace(a_mute_job(), workers={n: a_mute_worker(n, in_process=True) for n in (0, 1)}),
            id="it trains through Run, and has yet to make its first step",
        ),
        pytest.param(
            replace(a_mute_job(), workers={n: a_mute_worker(n, arrived=0) for n in (0, 1)}),
            id="its workers have not arrived",
        ),
        pytest.param(a_mute_job().without(1), id="one of its workers is gone"),
        pytest.param(a_mute_job().with_status(phase=Phase.SUCCEEDED), id="it is over"),
        pytest.param(a_job(2, max=8), id="nobody trains yet"),
    ],
)
async def test_nobody_is_asked_about_other_jobs(job: JobBuilder) -> None:
    watch = Watch()
    seen = await watch.over(HEARD, job)
    assert (seen, watch.cluster.asked) == (job.snapshot(), [])


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        pytest.param(NotFound("the server could not find it"), "install metrics-server", id="none"),
        pytest.param(Forbidden("pods is forbidden"), "apply the roles", id="not allowed"),
    ],
)
async def test_who_does_not_answer_for_good_is_asked_rarely_and_that_is_said_once(
    refusal: KubeError, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    watch = Watch(Cluster(refusal=refusal))
    seen = await watch.over(IGNORED_SECONDS + REFUSED_SECONDS - LOOK_SECONDS, a_mute_job())
    assert words in seen.use_unknown
    assert used(seen) == [None, None]
    assert len(watch.cluster.asked) == 1
    await watch.over(2 * REFUSED_SECONDS, a_mute_job())
    assert len(watch.cluster.asked) == 3
    assert [record.message for record in caplog.records if words in record.message] == [
        f"cannot size jobs whose scripts report no steps: {seen.use_unknown}"
    ]


async def test_an_api_that_comes_is_found_and_one_that_goes_away_is_missed() -> None:
    watch, job = Watch(Cluster(refusal=NotFound("not found"))), a_mute_job()
    await watch.over(HEARD, job)
    watch.cluster.refusal = None
    seen = await watch.over(REFUSED_SECONDS + 3 * ASK_SECONDS, job)
    assert (used(seen), seen.use_unknown) == ([0.5, 0.9], "")
    watch.cluster.refusal = Retryable("the service is unavailable")
    seen = await watch.over(KEPT_SECONDS, job)
    assert (used(seen), seen.use_unknown) == ([0.5, 0.9], "")
    seen = await watch.over(2 * ASK_SECONDS, job)
    assert used(seen) == [None, None]
    assert "the service is unavailable" in seen.use_unknown


@pytest.mark.parametrize(
    ("job", "pods", "words"),
    [
        pytest.param(
            a_mute_job(scaling={"targets": [{"resource": "GPU"}]}), None, "GPUs", id="of GPUs"
        ),
        pytest.param(
            a_mute_job().with_facts(requests=Resources(gpus=1)), None, "GPUs", id="by default"
        ),
        pytest.param(a_mute_job(), [a_pod(0), a_pod(1)], "neither a limit nor", id="of none"),
    ],
)
async def test_nobody_is_asked_what_would_be_a_share_of_nothing(
    job: JobBuilder, pods: list[PodObject] | None, words: str
) -> None:
    watch = Watch(Cluster() if pods is None else Cluster(pods=pods))
    seen = await watch.over(HEARD, job)
    assert words in seen.use_unknown
    assert watch.cluster.asked == []


async def test_a_job_that_was_made_again_under_its_name_begins_anew() -> None:
    watch, job = Watch(), a_mute_job()
    await watch.over(HEARD, job)
    again = await watch.over(LOOK_SECONDS, job.with_facts(uid="another"))
    assert not again.is_mute


async def test_what_was_heard_before_others_led_counts_no_more() -> None:
    watch, job = Watch(), a_mute_job()
    assert (await watch.over(HEARD, job)).is_mute
    watch._usage.forget_all()
    assert not (await watch.over(LOOK_SECONDS, job)).is_mute
