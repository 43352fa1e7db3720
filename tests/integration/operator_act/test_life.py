"""A job's life: pods are made, run, end, and are let go of; in as many writes as promised."""

import asyncio
import json

import pytest

from devcluster.kubelet.runtime import Exit
from devcluster.scripted import Context, Script
from spotrun.act.pods.writer import PodWriter
from spotrun.act.protection import BUDGETS, ENSURE_AGAIN_SECONDS, POLICIES
from spotrun.act.writes import Writes
from spotrun.api.names import FINALIZER_METERED, Phase
from spotrun.kube.errors import KubeError
from spotrun.kube.resource import Key
from spotrun.observe.jobs.leader_memory import Memory
from spotrun.observe.jobs.orphans import Orphan
from spotrun.observe.kube_objects import PODS, TRAINING_JOBS
from spotrun.state.actions import Release
from spotrun.state.names import owned_name
from spotrun.state.snapshot import PodPhase
from spotrun.wire import Report
from tests.integration.operator_act.helpers import Hand, Scripts, Some, Space


async def test_a_job_runs_succeeds_and_is_let_go_of(
    hand: Hand, space: Space, scripts: Scripts
) -> None:
    job = await space.create_job(min=3, max=3, replicas=3)
    done = asyncio.Event()

    async def play(context: Context) -> Exit:
        await done.wait()
        return Exit(0, message=json.dumps({"reason": "completed", "step": 7}))

    for worker_id in range(3):
        scripts.by_name[hand.name(job, worker_id)] = Script(play=play)

    first = await hand.turn()
    assert first.stored
    assert first.failure is None
    assert hand.stored[0][0].next_worker_id == 3
    running = await hand.turn_until(
        lambda j: [w.pod.phase for w in j.workers] == [PodPhase.RUNNING] * 3
    )
    assert all(worker.node is not None and worker.node.ready for worker in running.workers)
    assert all(worker.pod.metered for worker in running.workers)

    for worker_id in range(3):
        hand.report(running, worker_id, Report(ready=True, store_port=2000 + worker_id))
    trains = await hand.turn_until(lambda j: j.status.phase is Phase.RUNNING)
    assert sorted(trains.status.world.members) == [0, 1, 2]

    done.set()
    ended = await hand.turn_until(
        lambda j: (
            j.status.phase is Phase.SUCCEEDED
            and len(j.workers) == 3
            and not any(w.pod.metered for w in j.workers)
        )
    )
    # Settled first, in a status that was stored; let go of afterwards.
    assert str(ended.status.settled) == "0-2"
    counts = dict(hand.executor.writes)
    assert counts.pop("event") <= 10
    assert counts.pop("status") <= 7
    assert counts == {
        "dry_run": 1,
        "poddisruptionbudgets": 1,
        "networkpolicies": 1,
        "create": 3,
        "release": 3,
    }


async def test_nothing_is_written_when_nothing_changes(hand: Hand, space: Space) -> None:
    await space.create_job(min=2, max=2, replicas=2)
    await hand.turn()
    await hand.turn_until(lambda j: len(j.workers) == 2)
    await hand.turn()
    assert (await hand.look()).written_seconds < 60
    before = dict(hand.executor.writes)

    for _ in range(3):
        await hand.turn()

    assert dict(hand.executor.writes) == before


async def test_a_suspended_job_gives_its_workers_back(
    hand: Hand, space: Space, scripts: Scripts
) -> None:
    await space.create_job(min=2, max=2, replicas=2)
    await hand.turn_until(lambda j: [w.pod.phase for w in j.workers] == [PodPhase.RUNNING] * 2)

    await space.client.patch(
        TRAINING_JOBS, "job", {"spec": {"suspend": True}}, Some, namespace=space.namespace
    )
    await hand.turn_until(lambda j: str(j.status.settled) == "0-1" and not j.workers)

    assert await space.pods() == []
    assert hand.executor.writes["delete"] == 2
    assert hand.executor.writes["release"] == 2


async def test_budget_and_policy_belong_to_the_job_and_hold_off_evictions(
    hand: Hand, space: Space, scripts: Scripts
) -> None:
    # More workers than spec.workers.replicas says: min counts.
    job = await space.create_job(min=2, max=2)
    seen = await hand.turn_until(
        lambda j: [w.pod.phase for w in j.workers] == [PodPhase.RUNNING] * 2
    )
    name = owned_name("job", job.metadata.uid)
    policy = await space.read(POLICIES, name)
    assert policy is not None
    assert await space.read(BUDGETS, name) is None  # nothing is lost yet with an eviction
    for worker_id in range(2):
        hand.report(seen, worker_id, Report(ready=True, store_port=2000 + worker_id))
    await hand.turn_until(lambda j: j.status.phase is Phase.RUNNING)
    budget = await space.until(
        lambda: space.read(BUDGETS, name),
        lambda b: b["status"].get("observedGeneration") and b["status"]["currentHealthy"] == 2,
    )
    for owned in (policy, budget):
        (owner,) = owned["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (job.metadata.uid, True)
    assert budget["status"]["disruptionsAllowed"] == 0
    worker = hand.name(job, 0)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": worker, "namespace": space.namespace},
    }
    with pytest.raises(KubeError, match="disruption budget"):
        await space.client.create(
            PODS, eviction, Some, namespace=space.namespace, name=worker, subresource="eviction"
        )


async def test_only_our_finalizer_is_taken_off(hand: Hand, space: Space) -> None:
    job = await space.create_job()
    await hand.turn()
    name = hand.name(job, 0)
    other = "example.com/theirs"
    finalizers = {"metadata": {"finalizers": [other, FINALIZER_METERED]}}
    plain = json.loads(json.dumps(finalizers))
    await space.client.patch(PODS, name, plain, Some, namespace=space.namespace)
    pod = await space.read(PODS, name)
    assert pod is not None
    key = Key(space.namespace, "job")

    await hand.executor.strip(key, Orphan(name, "another-uid", None))
    kept = await space.read(PODS, name)
    assert kept is not None
    assert kept["metadata"]["finalizers"] == [other, FINALIZER_METERED]

    await hand.executor.strip(key, Orphan(name, pod["metadata"]["uid"], None))
    left = await space.read(PODS, name)
    assert left is not None
    assert left["metadata"]["finalizers"] == [other]


async def test_a_pod_that_goes_with_our_finalizer_is_let_go_of_once(
    hand: Hand, space: Space
) -> None:
    await space.create_job()
    await hand.turn()
    (worker,) = (await hand.look()).workers
    name, uid = worker.pod.name, worker.pod.uid
    await space.client.delete(PODS, name, uid=uid, namespace=space.namespace, grace_seconds=0)
    job = await hand.look()
    key = Key(space.namespace, "job")
    assert hand.horizon.caught_up(key)

    released = await PodWriter(space.client, Writes(hand.horizon, lambda: True)).change(
        job, Release(0, uid)
    )

    assert released is None
    assert not hand.horizon.caught_up(key), "the caches still show the pod, with our finalizer"
    assert (await hand.look()).workers == ()
    assert hand.horizon.caught_up(key)


async def test_what_protects_workers_is_made_again_after_somebody_has_deleted_it(
    hand: Hand, space: Space
) -> None:
    job = await space.create_job()
    await hand.turn()
    name = owned_name("job", job.metadata.uid)
    made = await space.client.get(POLICIES, name, Some, namespace=space.namespace)
    await space.client.delete(POLICIES, name, uid=made.metadata.uid, namespace=space.namespace)

    async def is_there() -> bool:
        return await space.read(POLICIES, name) is not None

    hand.clock.ahead_seconds = ENSURE_AGAIN_SECONDS - 60
    await hand.turn()
    assert not await is_there()
    hand.clock.ahead_seconds = ENSURE_AGAIN_SECONDS
    await hand.turn()
    assert await is_there()
    await hand.turn()
    assert hand.executor.writes["networkpolicies"] == 2


async def test_a_new_leader_does_not_protect_all_jobs_at_once(hand: Hand, space: Space) -> None:
    await space.create_job()
    await hand.turn()
    hand.memory = Memory()
    await hand.turn()
    assert hand.executor.writes["networkpolicies"] == 1
    hand.clock.ahead_seconds = ENSURE_AGAIN_SECONDS
    await hand.turn()
    assert hand.executor.writes["networkpolicies"] == 2
