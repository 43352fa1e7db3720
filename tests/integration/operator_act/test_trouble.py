"""What Kubernetes refuses, what somebody else has made, and answers that get lost."""

import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from spotrun.act.errors import SOON_SECONDS
from spotrun.act.executor import EVENTS
from spotrun.act.protection import POLICIES
from spotrun.act.write_retries import UNSURE_SECONDS
from spotrun.api.names import LABEL_JOB_UID, Reason
from spotrun.kube.read_your_writes import OVERDUE_SECONDS
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client, Selection
from spotrun.observe.jobs.leader_memory import Memory
from spotrun.observe.kube_objects import PODS, TRAINING_JOBS
from spotrun.policies.chain import decide
from spotrun.state.actions import Announce, Create, Decision, Remove
from spotrun.state.job_state import NO_WORLD, JobState, World
from spotrun.state.names import owned_name
from spotrun.state.snapshot import JobSnapshot
from tests.faults.proxy import FaultProxy
from tests.faults.rules import FOR_EVER, Rule
from tests.integration.operator_act.helpers import NAMESPACES, QUOTAS, Hand, Manifest, Some, Space


def condition(status: JobState, kind: str) -> tuple[str, str, str]:
    found = next(c for c in status.conditions if c.type == kind)
    return found.status.value, found.reason, found.message


async def events(space: Space) -> list[tuple[str, str]]:
    listed = await space.client.list_all(Selection(EVENTS, space.namespace), dict[str, Any])
    return [(e["reason"], e["note"]) for e in listed.items if e["regarding"]["name"] == "job"]


async def test_a_quota_that_refuses_a_worker_stops_the_rest_and_says_so(
    hand: Hand, space: Space, proxy: FaultProxy
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "2"}},
    }
    await space.client.create(QUOTAS, quota, Some, namespace=space.namespace)
    await space.until(lambda: space.read(QUOTAS, "few"), lambda q: "hard" in q.get("status", {}))
    await space.create_job(min=16, max=16, replicas=16)

    outcome = await hand.turn()

    assert len(await space.pods()) == 2
    attempts = [r for r in proxy.writes() if r.verb == "create" and r.path.endswith("/pods")]
    # The dry run, then 1, 2 (one of them refused); the other 13 were not tried.
    assert len(attempts) == 4
    assert outcome.wake_after_seconds == 0
    again = await hand.turn()
    assert 0 < again.wake_after_seconds <= 2.5
    refused = (await hand.look()).status
    assert refused.reason == Reason.QUOTA_EXCEEDED
    assert "16 workers are needed at once, which is pods=16;" in (refused.message or "")
    assert condition(refused, "TemplateAccepted")[:2] == ("False", "QuotaExceeded")
    assert "exceeded quota: few" in condition(refused, "TemplateAccepted")[2]
    assert [r for r, note in await events(space) if "exceeded quota" in note] == ["QuotaExceeded"]
    before = len(proxy.writes())
    for _ in range(3):
        await hand.turn()
    assert len(proxy.writes()) == before

    more = {"spec": {"hard": {"pods": "20"}}}
    await space.client.patch(QUOTAS, "few", more, Some, namespace=space.namespace)
    await space.until(
        lambda: space.read(QUOTAS, "few"), lambda q: q["status"]["hard"]["pods"] == "20"
    )
    hand.clock.ahead_seconds += 600
    await hand.turn_until(lambda j: len(j.workers) == 16 and j.refusal is None)
    await hand.turn()
    assert condition((await hand.look()).status, "TemplateAccepted")[0] == "True"


async def test_a_foreign_pod_of_our_name_is_left_alone_and_the_others_are_made(
    hand: Hand, space: Space
) -> None:
    job = await space.create_job(min=3, max=3, replicas=3)
    name = hand.name(job, 1)
    foreign = {
        "apiVersion": "v1",
        "kind": "Pod",
        # It even wears our label.
        "metadata": {"name": name, "labels": {str(LABEL_JOB_UID): job.metadata.uid}},
        "spec": {"containers": [{"name": "a", "image": "b"}]},
    }
    await space.client.create(PODS, foreign, Some, namespace=space.namespace)

    await hand.turn()
    await hand.turn()

    seen = await hand.look()
    assert [worker.worker_id for worker in seen.workers] == [0, 2]
    assert seen.refusal is not None
    assert seen.refusal.reason == Reason.NAME_TAKEN
    words = f"pod {name} exists and does not belong to this job"
    assert (seen.status.message or "").startswith(words)
    assert condition(seen.status, "TemplateAccepted")[:2] == ("False", "NameTaken")
    theirs = await space.read(PODS, name)
    assert theirs is not None
    assert theirs["spec"]["containers"][0]["name"] == "a"
    await space.client.delete(PODS, name, uid=theirs["metadata"]["uid"], namespace=space.namespace)
    hand.clock.ahead_seconds += 600
    await hand.turn_until(lambda j: len(j.workers) == 3 and j.refusal is None)


async def test_a_restricted_namespace_takes_workers_and_says_what_is_in_the_way(
    direct: Client, client: Client, crds: None
) -> None:
    space = await Space.make(direct, f"act-{uuid.uuid4().hex[:8]}", level="restricted")
    hand = Hand(space, client)
    # Nothing in the template says so: the dry run finds out, and the pods are made to fit.
    await space.create_job()
    await hand.turn()
    (pod,) = await space.pods()
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert hand.executor.writes["dry_run"] == 1

    root = {"name": "trainer", "image": "image", "securityContext": {"runAsNonRoot": False}}
    await space.create_job("rooted", template={"spec": {"containers": [root]}})
    other = Hand(space, client)
    await other.turn("rooted")
    await other.turn("rooted")
    status = (await other.look("rooted")).status
    says = condition(status, "TemplateAccepted")
    assert says[0] == "False"
    assert "violates PodSecurity" in says[2]
    assert "runAsNonRoot" in says[2]
    assert other.executor.writes["create"] == 0
    assert len(await space.pods()) == 1


async def test_a_dry_run_speaks_for_all_jobs_of_one_template_for_a_while(
    direct: Client, client: Client, crds: None
) -> None:
    space = await Space.make(direct, f"act-{uuid.uuid4().hex[:8]}", level="restricted")
    hand = Hand(space, client)
    for name in ("one", "two"):
        hand.memory = Memory()
        await space.create_job(name)
        await hand.turn(name)
    assert hand.executor.writes["dry_run"] == 1
    contexts = [pod["spec"]["securityContext"] for pod in await space.pods()]
    assert [context["runAsNonRoot"] for context in contexts] == [True, True]

    hand.memory = Memory()
    other = {"name": "trainer", "image": "another"}
    await space.create_job("other", template={"spec": {"containers": [other]}})
    await hand.turn("other")
    assert hand.executor.writes["dry_run"] == 2

    hand.clock.ahead_seconds += 61
    hand.memory = Memory()
    await space.create_job("late")
    await hand.turn("late")
    assert hand.executor.writes["dry_run"] == 3


async def test_a_training_begins_only_behind_its_budget_unless_that_is_refused(
    hand: Hand, space: Space, proxy: FaultProxy
) -> None:
    await space.create_job()
    await hand.turn()
    seen = await hand.look()
    world = World(number=1, members=(0,), is_active=True)
    begins = Decision(replace(seen.status, world=world))
    path = "/poddisruptionbudgets$"

    proxy.inject(Rule("drop", verb="create", path=path))
    outcome = await hand.executor.carry_out(seen, begins, hand.memory)
    assert (outcome.stored, outcome.wake_after_seconds) == (False, UNSURE_SECONDS)
    assert (await hand.look()).status.world is NO_WORLD

    hand.clock.ahead_seconds += UNSURE_SECONDS
    proxy.inject(Rule("reply", verb="create", path=path, status=403))
    outcome = await hand.executor.carry_out(seen, begins, hand.memory)
    assert outcome.stored
    assert (await hand.look()).status.world == world


async def test_a_policy_that_was_changed_or_deleted_is_made_again_after_a_while(
    hand: Hand, space: Space
) -> None:
    job = await space.create_job(min=1, max=3)
    await hand.turn()
    name = owned_name("job", job.metadata.uid)
    opened: Manifest = {"spec": {"ingress": [{}]}}
    await space.client.patch(POLICIES, name, opened, Some, namespace=space.namespace)

    ingress = []
    for replicas in (2, 3):
        more = {"spec": {"workers": {"replicas": replicas}}}
        await space.client.patch(TRAINING_JOBS, "job", more, Some, namespace=space.namespace)
        await hand.turn()
        assert len(await space.pods()) == replicas
        policy = await space.read(POLICIES, name)
        assert policy is not None
        ingress.append(policy["spec"]["ingress"])
        hand.clock.ahead_seconds += 600
    strangers, nobody_else = ingress
    assert strangers == [{}]
    assert nobody_else[0]["from"]


async def test_a_namespace_that_becomes_restricted_later_is_found_out(
    hand: Hand, space: Space
) -> None:
    await space.create_job(min=1, max=2)
    await hand.turn()
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await space.client.patch(NAMESPACES, space.namespace, level, Some)
    more = {"spec": {"workers": {"replicas": 2}}}
    await space.client.patch(TRAINING_JOBS, "job", more, Some, namespace=space.namespace)
    await hand.turn_until(lambda j: j.refusal is not None)
    assert hand.executor.writes["dry_run"] == 1

    hand.clock.ahead_seconds += 600
    await hand.turn_until(lambda j: len(j.workers) == 2 and j.refusal is None)

    contexts = [pod["spec"]["securityContext"] for pod in await space.pods()]
    assert [context.get("runAsNonRoot") for context in contexts] == [None, True]


async def test_an_invalid_template_is_refused_in_kubernetes_words(hand: Hand, space: Space) -> None:
    container = {"name": "trainer", "image": "i", "resources": {"limits": {"cpu": "a lot"}}}
    await space.create_job(template={"spec": {"containers": [container]}})
    await hand.turn()
    await hand.turn()
    assert "quantities must match" in (condition((await hand.look()).status, "TemplateAccepted")[2])
    assert await space.pods() == []


async def test_a_status_decided_on_an_old_version_is_not_written_and_nothing_is_done(
    hand: Hand, space: Space
) -> None:
    await space.create_job()
    seen = await hand.look()
    decision = decide(seen, datetime.now(UTC))
    assert decision.actions
    touched = {"metadata": {"annotations": {"touched": "yes"}}}
    await space.client.patch(TRAINING_JOBS, "job", touched, Some, namespace=space.namespace)

    outcome = await hand.executor.carry_out(seen, decision, hand.memory)

    assert (outcome.stored, outcome.wake_after_seconds) == (False, SOON_SECONDS)
    assert (await hand.look()).status == JobState()
    assert await space.pods() == []
    assert hand.stored == []


async def test_conflicts_in_a_row_are_tried_later_and_later_and_then_not_on_the_same_job(
    hand: Hand, space: Space
) -> None:
    await space.create_job()
    seen = await hand.look()
    decision, key = decide(seen, datetime.now(UTC)), Key(space.namespace, "job")
    touched = {"metadata": {"annotations": {"touched": "yes"}}}
    await space.client.patch(TRAINING_JOBS, "job", touched, Some, namespace=space.namespace)

    outcomes = [await hand.executor.carry_out(seen, decision, hand.memory) for _ in range(4)]

    assert [one.wake_after_seconds for one in outcomes] == [0.05, 0.1, 0.2, 0.4]
    assert hand.horizon.caught_up(key)
    await hand.executor.carry_out(seen, decision, hand.memory)
    assert not hand.horizon.caught_up(key), "the cache does not show what was in the way"
    hand.clock.ahead_seconds = OVERDUE_SECONDS
    assert hand.horizon.overdue(key) == (TRAINING_JOBS,)
    assert (await hand.turn()).stored, "what is read anew is newer"
    assert hand.memory.conflicts == 0


@pytest.mark.parametrize("fault", ["lose_answer", "drop"])
async def test_a_lost_answer_to_a_status_is_looked_for_before_anything_is_done(
    hand: Hand, space: Space, proxy: FaultProxy, fault: Any
) -> None:
    await space.create_job(min=2, max=2, replicas=2)
    proxy.inject(Rule(fault, verb="patch", path="/status$"))

    outcome = await hand.turn()

    assert (outcome.stored, outcome.wake_after_seconds) == (False, UNSURE_SECONDS)
    assert await space.pods() == []
    hand.clock.ahead_seconds += UNSURE_SECONDS
    await hand.turn()
    assert len(await space.pods()) == 2
    assert (await hand.look()).status.next_worker_id == 2


@pytest.mark.parametrize("fault", ["lose_answer", "drop"])
async def test_a_lost_answer_to_a_creation_makes_no_second_worker(
    hand: Hand, space: Space, proxy: FaultProxy, fault: Any
) -> None:
    await space.create_job(min=4, max=4, replicas=4)

    def is_real(body: Manifest) -> bool:
        return bool(body["metadata"]["name"].endswith("-1"))

    proxy.inject(Rule(fault, verb="create", path="/pods$", match=is_real))

    outcome = await hand.turn()

    assert outcome.stored
    assert outcome.wake_after_seconds == UNSURE_SECONDS
    await hand.turn_until(lambda j: len(j.workers) == 4)
    await hand.turn()
    assert len(await space.pods()) == 4
    assert (await hand.look()).status.next_worker_id == 4
    assert (await hand.look()).refusal is None


async def test_a_creation_repeated_on_stale_knowledge_finds_its_own_pod(
    hand: Hand, space: Space
) -> None:
    await space.create_job()
    stale = await hand.look()
    await hand.turn()
    now = await hand.look()
    # As an operator would that has the new status, but not yet the new pod.
    behind = JobSnapshot(**{**now.__dict__, "workers": stale.workers})

    outcome = await hand.executor.carry_out(behind, Decision(now.status, (Create(0),)), hand.memory)

    assert (outcome.wake_after_seconds, outcome.failure) == (float("inf"), None)
    assert len(await space.pods()) == 1
    assert hand.memory.refused is None


async def test_a_worker_of_another_uid_is_not_deleted(hand: Hand, space: Space) -> None:
    await space.create_job()
    await hand.turn()
    seen = await hand.look()
    remove = Remove(0, str(uuid.uuid4()), Reason.RESIZING, "for the test")

    outcome = await hand.executor.carry_out(seen, Decision(seen.status, (remove,)), hand.memory)

    assert outcome.wake_after_seconds == SOON_SECONDS
    (pod,) = await space.pods()
    assert "deletionTimestamp" not in pod["metadata"]


async def test_an_api_server_that_is_busy_is_nobodys_fault(
    hand: Hand, space: Space, proxy: FaultProxy
) -> None:
    await space.create_job()
    proxy.inject(
        Rule("reply", verb="create", path="/pods$", status=429, retry_after=7, times=FOR_EVER)
    )

    outcome = await hand.turn()

    assert outcome.failure is not None
    assert outcome.failure.retry_after_seconds == 7
    assert (await hand.look()).refusal is None


async def test_nothing_is_decided_before_the_caches_show_what_was_written(
    hand: Hand, space: Space
) -> None:
    await space.create_job(min=2, max=2, replicas=2)
    await hand.turn()
    seen = await hand.look()
    key = Key(space.namespace, "job")
    jobs, pods = int(seen.version), max(int(worker.pod.version) for worker in seen.workers)
    hand.shown.versions = {TRAINING_JOBS: jobs - 1, PODS: 0}
    assert not hand.horizon.caught_up(key)
    assert set(hand.horizon._awaited[key]) == {TRAINING_JOBS, PODS}
    hand.shown.versions = {TRAINING_JOBS: jobs, PODS: 0}
    assert not hand.horizon.caught_up(key)
    hand.shown.versions = {TRAINING_JOBS: 0, PODS: pods}
    assert hand.horizon.caught_up(key)  # what was reached once is not asked for again


async def test_a_job_that_cannot_be_read_says_so_and_keeps_its_ledger(
    hand: Hand, space: Space
) -> None:
    await space.create_job()
    await hand.turn()
    before = (await hand.look()).status
    container = {"name": "trainer", "image": "image", "env": {"A": "a map, not a list"}}
    bad: Manifest = {"spec": {"workers": {"template": {"spec": {"containers": [container]}}}}}
    await space.client.patch(TRAINING_JOBS, "job", bad, Some, namespace=space.namespace)
    await hand.turn()
    now = (await hand.look()).status
    assert (now.next_worker_id, now.settled) == (before.next_worker_id, before.settled)
    assert condition(now, "TemplateAccepted")[2].startswith("this operator cannot read")


async def test_no_events_in_a_namespace_that_goes_away(
    hand: Hand, space: Space, proxy: FaultProxy
) -> None:
    await space.create_job()
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    await space.client.patch(TRAINING_JOBS, "job", held, Some, namespace=space.namespace)
    namespace = await space.client.get(NAMESPACES, space.namespace, Some)
    await space.client.delete(NAMESPACES, space.namespace, uid=namespace.metadata.uid)
    seen = await hand.look()
    # As it is seen by an operator whose cache does not show yet that the job goes, too.
    alive = JobSnapshot(**{**seen.__dict__, "deleting": False})
    decision = decide(alive, datetime.now(UTC))
    told = Decision(decision.status, decision.actions, (Announce(Reason.RESIZING, "for people"),))
    assert any(isinstance(action, Create) for action in told.actions)

    outcome = await hand.executor.carry_out(alive, told, hand.memory)

    assert outcome.failure is None
    assert hand.memory.refused is None
    assert not [r for r in proxy.writes() if r.path.endswith("/events")]
    free: Manifest = {"metadata": {"finalizers": None}}
    await space.client.patch(TRAINING_JOBS, "job", free, Some, namespace=space.namespace)
