"""A worker of a running job lies: about its progress, its peers, its state.

What it says within the bounds of the wire is the job's own affair; what it must not do is keep the
operator from deciding, poison sums and metrics, or harm anybody else. Random lies are told in
tests/unit/policies/test_hostile_reports.py.
"""

import json
import math
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import cycle
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from devcluster.client import Manifest
from devcluster.cluster import Cluster
from spotrun.runtime.controller import Controller
from spotrun.wire import MOST_STEPS, REPORT_BYTES, Checkpoint, Progress, write_report
from tests.integration.attacks.helpers import HUNG_UP, Told, taken_over
from tests.support.cluster.operator_world import World, open_world

pytestmark = pytest.mark.asyncio(loop_scope="module")

PRICE = "spotrun.dev/usd-per-hour"
KEPT = {"volume": {"nfs": {"server": "nfs.example.com", "path": "/"}}}


@dataclass
class Stage:
    """A job of two workers that trains on a node of known price; the second one is the liar."""

    world: World
    operator: Controller
    limits: Iterator[str] = field(default_factory=lambda: cycle(("0.000001", "1000")))

    async def send(self, body: Any) -> Told:
        """Say anything in the liar's name."""
        liar = (await self.world.pods())[1]
        async with taken_over(self.world, liar) as traitor:
            told: Told = await traitor.report(body)
            return told

    async def say(self, **report: Any) -> None:
        """Have the liar's agent say it from now on."""
        agent = self.world.agent(1)
        agent.report = replace(agent.report, **report)
        told = await self.send(write_report(agent.report))
        assert told.status == 200
        await self.have_all_written()

    async def progress(self, step: int, **more: Any) -> Manifest:
        """Have it say how far it is; returns the job once it says so, too."""
        world_number = self.world.agent(1).report.arrived
        await self.say(progress=Progress(world_number, step, **more))
        return await self.world.until_job(lambda s: s.get("progress", {}).get("step") == step)

    async def have_all_written(self) -> None:
        """Progress is written once a minute, but what is said of a budget at once."""
        budget = {"maxCostUsd": next(self.limits), "onExceeded": "Warn"}
        await self.world.patch_job({"budget": budget})

    async def job(self) -> Manifest:
        return await self.world.job()

    async def metrics(self) -> dict[str, float]:
        """Each sample by name and labels, read as Prometheus reads it."""
        url = f"http://{self.world.host}:{self.operator.plain.port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            families = text_string_to_metric_families(await answer.text())
            return {
                f"{sample.name}{json.dumps(sample.labels, sort_keys=True)}": sample.value
                for family in families
                for sample in family.samples
            }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(cluster: Cluster, crds: None) -> AsyncIterator[Stage]:
    async with open_world(cluster) as world:
        room = {"cpu": "4", "memory": "16Gi"}
        await world.nodes.add("priced", capacity=room, annotations={PRICE: "3.6"})
        asked = {"requests": {"cpu": "1", "memory": "4Gi"}}
        container = {"name": "trainer", "image": "x", "args": ["a.py"], "resources": asked}
        workers = {"min": 1, "max": 2, "replicas": 2}
        workers |= {"template": {"spec": {"containers": [container]}}}  # type: ignore[dict-item]
        await world.create_job(workers=workers, checkpoint=KEPT)
        async with world.operator() as operator:
            await world.until_job(lambda s: s.get("world", {}).get("members") == "0-1")
            await world.until_phase("Running")
            stage = Stage(world, operator)
            await stage.have_all_written()
            await world.until_job(lambda s: s.get("cost", {}).get("usdPerHour") == "1.8")
            yield stage


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def unharmed(stage: Stage) -> AsyncIterator[None]:
    """Whatever was said: the job trains, its cost is its node's, and metrics are numbers."""
    yield
    job = await stage.job()
    assert job["status"]["phase"] == "Running"
    assert Decimal(job["status"]["cost"]["usdPerHour"]) == Decimal("1.8")
    assert Decimal(job["status"]["cost"]["usd"]) < 1
    metrics = await stage.metrics()
    assert len(metrics) > 20
    assert all(math.isfinite(value) for key, value in metrics.items() if "_bucket" not in key)


PROGRESS = b'{"wire": 1, "progress": {"worldNumber": 1, "step": %s}}'
MALFORMED: dict[str, tuple[bytes, str]] = {
    "NaN": (PROGRESS % b"NaN", "NaN is not a number"),
    "infinity": (PROGRESS % b"-Infinity", "-Infinity is not a number"),
    "1e308 steps": (PROGRESS % b"1e308", "step is a whole number"),
    "a number beyond any float": (PROGRESS % b"1e999", "step is a whole number"),
    "a negative step": (PROGRESS % b"-1", "step is a whole number"),
    "half a step": (PROGRESS % b"0.5", "step is a whole number"),
    "a step that is a boolean": (PROGRESS % b"true", "step is a whole number"),
    "a step that is a text": (PROGRESS % b'"100"', "step is a whole number"),
    "more steps than can be stored": (PROGRESS % b"9007199254740992", "from 0 to"),
    "a step of 10,000 digits": (PROGRESS % (b"9" * 10_000), "this is not JSON"),
    "deeply nested lists": (PROGRESS % (b"[" * 7_000 + b"]" * 7_000), "not "),
    "deeply nested objects": (PROGRESS % (b'{"a":' * 2_000 + b"1" + b"}" * 2_000), "not "),
    "UTF-16": (PROGRESS.decode().encode("utf-16") + b"\xff", "this is not JSON"),
    "negative seconds": (
        b'{"wire": 1, "progress": {"step": 1, "stepSeconds": -1e-9}}',
        "stepSeconds is a number from 0",
    ),
    "a step that takes a year": (
        b'{"wire": 1, "progress": {"step": 1, "stepSeconds": 31536000}}',
        "stepSeconds is a number from 0",
    ),
    "a checkpoint that takes a century": (
        b'{"wire": 1, "progress": {"step": 1, "checkpointSeconds": 3.2e9}}',
        "checkpointSeconds is a number from 0",
    ),
    "more than 100% of a GPU": (
        b'{"wire": 1, "utilization": {"gpu": 1.5}}',
        "gpu is a number from 0 to 1",
    ),
    "a port of another machine": (
        b'{"wire": 1, "storePort": "198.51.100.1:22"}',
        "storePort is a whole number",
    ),
    "a negative exit code": (
        b'{"wire": 1, "failed": {"worldNumber": 1, "exitCode": -9}}',
        "exitCode is a whole number",
    ),
}


@pytest.mark.parametrize(("body", "words"), MALFORMED.values(), ids=MALFORMED)
async def test_a_worker_reports(stage: Stage, body: bytes, words: str) -> None:
    """refused with a message that names the field or the mistake"""
    told = await stage.send(body)
    assert (told.status, words in told.message) == (400, True)


LARGE = {
    "a step of a million digits": PROGRESS % (b"9" * 1_000_000),
    "four megabytes of text": b'{"wire": 1, "failed": {"message": "' + b"x" * 4_000_000 + b'"}}',
    "one byte more than the limit": b" " * (REPORT_BYTES + 1),
}


@pytest.mark.parametrize("body", LARGE.values(), ids=LARGE)
async def test_a_worker_sends_a_report_that_is_too_long(stage: Stage, body: bytes) -> None:
    """refused, and the connection is closed: the operator does not read beyond the limit"""
    told = await stage.send(body)
    assert told in {HUNG_UP, Told(413, f"a report has at most {REPORT_BYTES} bytes")}


async def test_a_worker_reports_more_steps_than_its_time_allows(stage: Stage) -> None:
    """harmless: implausible progress is neither shown as speed nor counted as savings"""
    job = await stage.progress(
        MOST_STEPS - 1, total=MOST_STEPS, samples=MOST_STEPS, step_seconds=86_400.0
    )
    saved = Decimal(job["status"]["cost"].get("savedUsd", "0"))
    assert abs(saved) < 10


async def test_a_worker_reports_steps_that_take_no_time(stage: Stage) -> None:
    """harmless: the speed that is shown has an upper limit"""
    job = await stage.progress(
        MOST_STEPS, total=MOST_STEPS, samples=MOST_STEPS, step_seconds=5e-324
    )
    progress = job["status"]["progress"]
    assert progress["percent"] == "100%"
    assert Decimal(progress["samplesPerSecond"]) <= 10**9


async def test_a_worker_loses_all_its_steps_again_and_again(stage: Stage) -> None:
    """harmless: no counter exceeds what can be stored, and no more is lost than was paid"""
    for step in (MOST_STEPS - 2, 201, MOST_STEPS - 3, 202, MOST_STEPS - 4, 203):  # its peer has 100
        job = await stage.progress(step, step_seconds=86_400.0)
    status = job["status"]
    assert status.get("interruptions", {}).get("lostSteps", 0) <= MOST_STEPS
    assert Decimal(status["cost"].get("lostWorkUsd", "0")) <= Decimal(status["cost"]["usd"])


async def test_a_worker_reports_a_checkpoint_of_the_largest_step(stage: Stage) -> None:
    """harmless to others: only its own job restores it"""
    name = f"step-{MOST_STEPS}.g1"
    await stage.say(committed=Checkpoint(name, MOST_STEPS))
    job = await stage.world.until_job(lambda s: s.get("checkpoint", {}).get("name") == name)
    assert job["status"]["checkpoint"]["step"] == MOST_STEPS


async def test_a_worker_reports_a_world_that_does_not_exist_yet(stage: Stage) -> None:
    """harmless: only the operator numbers worlds"""
    told = await stage.send({"wire": 1, "ready": True, "arrived": MOST_STEPS})
    assert told.status == 200
    assert (await stage.job())["status"]["world"]["number"] < 100


async def test_a_worker_accuses_all_its_peers(stage: Stage) -> None:
    """harmless: a peer that still answers is not counted as lost"""
    before = [pod["metadata"]["uid"] for pod in await stage.world.pods()]
    for _ in range(3):
        told = await stage.send({"wire": 1, "ready": True, "arrived": 1, "suspects": [0] * 8})
        assert told.status == 200
    assert [pod["metadata"]["uid"] for pod in await stage.world.pods()] == before


async def test_a_worker_reports_without_a_pause(stage: Stage) -> None:
    """refused after the first ones: the worker has to wait before it reports again"""
    liar = (await stage.world.pods())[1]
    async with taken_over(stage.world, liar) as traitor:
        told = [await traitor.report({"wire": 1, "ready": True})]
        while told[-1].status == 200 and len(told) < 2_000:  # a slow machine needs more of them
            told.append(await traitor.report({"wire": 1, "ready": True}))
    assert told[0].status == 200
    assert told[-1] == Told(429, "this worker asks too often: wait before the next request")
