"""Jobs that are deleted: their workers are charged where that is still possible, and let go of."""

import asyncio
from contextlib import suppress

from spotrun.api.names import FINALIZER_METERED
from spotrun.kube.errors import NotFound
from spotrun.kube.resource import Key
from spotrun.observe.jobs.orphans import Orphan
from spotrun.observe.kube_objects import TRAINING_JOBS
from spotrun.state.snapshot import PodPhase
from tests.integration.operator_act.helpers import Hand, Scripts, Space


async def test_a_deleted_job_takes_its_charged_workers_along(
    hand: Hand, space: Space, scripts: Scripts
) -> None:
    job = await space.create_job(min=2, max=2, replicas=2)
    await hand.turn_until(lambda j: [w.pod.phase for w in j.workers] == [PodPhase.RUNNING] * 2)

    await space.client.delete(
        TRAINING_JOBS,
        "job",
        uid=job.metadata.uid,
        namespace=space.namespace,
        propagation="Foreground",
    )
    # The garbage collector looks for new kinds, such as ours was at first, every 30 s.
    async with asyncio.timeout(90):
        while await space.read(TRAINING_JOBS, "job") is not None:
            with suppress(NotFound):
                await hand.turn()
            await asyncio.sleep(0.1)

    assert str(hand.stored[-1][0].settled) == "0-1"
    assert await space.pods() == []


async def test_orphans_are_let_go_of(hand: Hand, space: Space, scripts: Scripts) -> None:
    job = await space.create_job()
    await hand.turn_until(lambda j: [w.pod.phase for w in j.workers] == [PodPhase.RUNNING])
    await space.client.delete(TRAINING_JOBS, "job", uid=job.metadata.uid, namespace=space.namespace)
    (pod,) = await space.until(
        space.pods, lambda pods: pods[0]["status"]["phase"] in {"Failed", "Succeeded"}
    )
    assert pod["metadata"]["finalizers"] == [FINALIZER_METERED]

    key = Key(space.namespace, "job")
    orphan = Orphan(pod["metadata"]["name"], pod["metadata"]["uid"], job.metadata.uid)
    await hand.executor.strip(key, orphan)
    await space.until(space.pods, lambda pods: not pods)
    await hand.executor.strip(key, orphan)  # gone already: nothing to do
