"""A job without a volume for its checkpoints: they are in an S3 server of its own cluster."""

import shutil
import time

import pytest

from devcluster.s3 import program
from tests.e2e import jobs
from tests.e2e.nodes import boot, cut_power
from tests.e2e.site import FOR_EVER, PAUSE_SECONDS, Site
from tests.integration.trainer.traces import differences
from tests.support.jobs.statuses import failures_of
from tests.support.storage import s3_pod


@pytest.mark.kind_only("it takes the power of a node")
async def test_the_only_worker_loses_its_power_and_the_bucket_has_its_steps(
    site: Site, alone: dict[int, str]
) -> None:
    """Nobody but the bucket has the state: the job has one worker."""
    await start_server(site)
    checkpoint, found = s3_pod.saves_there()
    told = (jobs.OWN_FOLDER, "--steps", FOR_EVER, "--pause", PAUSE_SECONDS)
    container = {**found, "env": [*jobs.ENVIRONMENT, *found["env"]]}
    await site.start("run_loop.py", *told, workers=1, checkpoint=checkpoint, container=container)
    await site.until(s3_pod.has_stored)
    node = await site.node_of(rank=0)

    lost_at = time.time()
    await cut_power(site, node)
    try:
        after = await site.until_trains(1, since=lost_at)
        status = await site.until(s3_pod.has_restored)
    finally:
        await boot(site, node)
    assert status["world"]["restore"] == f"step-{after[0]['step'] - 1}.g1"
    assert differences(await site.trace(), alone) == set()
    assert failures_of(status) == 0
    assert status["cost"]["storage"]["storedBytes"] > 0


async def start_server(site: Site) -> None:
    """Start the server on the node on demand, and wait until it answers."""
    binary = program.ensure(site.cluster.progress)
    here = site.kind.files.here / site.namespace / "program"
    here.mkdir()
    shutil.copy(binary, here)
    claim = {"persistentVolumeClaim": {"claimName": jobs.CLAIM}}
    await site.apply(*s3_pod.s3_server(site.image, claim, folder="program"))
    await site.kubectl("wait", "--for=condition=Ready", f"pod/{s3_pod.NAME}", "--timeout=120s")
