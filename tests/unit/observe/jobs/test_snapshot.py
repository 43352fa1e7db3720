import json
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from spotrun.api.field_types.text_values import Intervals, WorkerIds
from spotrun.api.meta import ConditionStatus
from spotrun.api.names import (
    ANNOTATION_DEVICES,
    FINALIZER_METERED,
    LABEL_JOB_UID,
    LABEL_TEMPLATE,
    ConditionType,
    Reason,
)
from spotrun.api.spec.limits import Budget
from spotrun.observe.jobs import snapshot
from spotrun.observe.jobs.device_claims import Devices
from spotrun.observe.jobs.leader_memory import Memory, Refused
from spotrun.observe.jobs.snapshot import Readings, job_snapshot
from spotrun.observe.jobs.volumes import Storage
from spotrun.observe.kube_objects import JobObject, PodObject
from spotrun.observe.telemetry.agents import Agents
from spotrun.policies.chain import decide
from spotrun.state.conditions import find
from spotrun.state.job_state import JobState
from spotrun.state.names import template_hash, worker_name
from spotrun.state.snapshot import JobSnapshot, Node, Refusal
from spotrun.wire import Report
from tests.support.jobs.builders import a_spec

UID = "job-uid"
TEMPLATE = template_hash(a_spec(2))
NOW = datetime(2026, 3, 2, 13, 0, tzinfo=UTC)
WORLD = {"number": 1, "active": True, "entry": "Restart"}
NODES = {"n0": Node("n0"), "n1": Node("n1", gone=True)}


def job(
    spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **meta: Any
) -> JobObject:
    found = {
        "metadata": {
            "name": "job",
            "namespace": "ns",
            "uid": UID,
            "resourceVersion": "7",
            "generation": 2,
            "creationTimestamp": "2026-03-02T12:00:00Z",
            **meta,
        },
        "spec": a_spec(2).manifest() if spec is None else spec,
        **({} if status is None else {"status": status}),
    }
    return msgspec.json.decode(json.dumps(found).encode(), type=JobObject)


def pod(
    worker_id: int,
    node: str | None = None,
    *,
    template: str = TEMPLATE,
    devices: str = "",
    **status: Any,
) -> PodObject:
    found = {
        "metadata": {
            "name": worker_name("job", UID, worker_id),
            "uid": f"uid-{worker_id}",
            "resourceVersion": "1",
            "labels": {str(LABEL_JOB_UID): UID, str(LABEL_TEMPLATE): template},
            "annotations": {str(ANNOTATION_DEVICES): devices},
            "finalizers": [str(FINALIZER_METERED)],
            "ownerReferences": [{"uid": UID, "controller": True}],
        },
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": "Running", **status},
    }
    return msgspec.convert(found, PodObject)


class Bench:
    """Everything that a snapshot is made from."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.agents = Agents(lambda: self.seconds)
        self.readings = Readings()
        self.memory = Memory()

    def look(self, job: JobObject, *pods: PodObject, **more: Any) -> JobSnapshot:
        return job_snapshot(
            job,
            pods,
            NODES.__getitem__,
            self.agents,
            readings=self.readings,
            memory=self.memory,
            now=NOW,
            now_seconds=self.seconds,
            leading_since=940.0,
            **more,
        )

    def see(self, job: JobObject, *pods: PodObject, **more: Any) -> JobSnapshot:
        seen = self.look(job, *pods, **more)
        assert seen.broken is None
        return seen


def test_a_job_with_its_pods_nodes_and_agents() -> None:
    bench = Bench()
    bench.agents.take_report(UID, 0, Report(ready=True))
    bench.agents.take_report(UID, 5, Report())  # of a pod that is no more
    bench.seconds = 1003.0
    stranger = msgspec.structs.replace(
        pod(9), metadata=msgspec.structs.replace(pod(9).metadata, name="job-9")
    )
    seen = bench.see(job(status={"nextWorkerId": 2}), pod(1, "n0"), pod(0), stranger)
    assert [worker.worker_id for worker in seen.workers] == [0, 1]
    assert [worker.node for worker in seen.workers] == [None, Node("n0")]
    agent = seen.workers[0].agent
    assert agent is not None
    assert (agent.report.ready, agent.heard_seconds) == (True, 3)
    assert seen.workers[1].agent is None
    assert bench.agents.facts(UID, 5) is None
    assert seen.template == seen.workers[0].pod.template == template_hash(a_spec(2))
    assert (seen.namespace, seen.name, seen.uid) == ("ns", "job", UID)
    assert (seen.version, seen.generation, seen.deleting) == ("7", 2, False)
    assert seen.created_at == datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
    assert seen.status == JobState(next_worker_id=2)
    assert (seen.written_seconds, seen.leading_seconds) == (float("inf"), 63.0)
    assert seen.refusal is None


def test_a_pod_is_read_again_only_when_it_has_changed() -> None:
    bench, of_three = Bench(), job(status={"nextWorkerId": 3})
    stays, goes, changes = pod(0), pod(1), pod(2)
    before = bench.see(of_three, stays, goes, changes)
    after = bench.see(of_three, stays, pod(2, "n0"))
    assert [worker.pod.worker_id for worker in after.workers] == [0, 2]
    assert after.workers[0].pod is before.workers[0].pod
    assert [before.workers[2].pod.node, after.workers[1].pod.node] == [None, "n0"]


def test_the_status_that_each_worker_asks_for_is_hashed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed: list[bytes] = []
    digest = snapshot._digest

    def counted(raw: msgspec.Raw) -> bytes:
        hashed.append(bytes(raw))
        return digest(raw)

    monkeypatch.setattr(snapshot, "_digest", counted)
    readings, one = Readings(), job(status={"nextWorkerId": 2})
    for _ in range(100):
        assert readings.status(one).status == JobState(next_worker_id=2)
        assert readings.spec(one).spec == a_spec(2)
    assert len(hashed) == 2
    again = msgspec.structs.replace(one, status=msgspec.Raw(bytes(one.status)))
    assert readings.status(again).status is readings.status(one).status, "it says the same"
    later = msgspec.structs.replace(one, status=msgspec.Raw(b'{"nextWorkerId": 3}'))
    assert readings.status(later).status == JobState(next_worker_id=3)


def test_what_the_process_remembers() -> None:
    bench = Bench()
    bench.memory.written_at = 998.0
    bench.memory.refused = Refused(Refusal("NameTaken", "words"), "t")
    seen = bench.see(job(deletionTimestamp="2026-03-02T12:00:00Z"), storage=Storage(is_shared=True))
    assert seen.written_seconds == 2.0
    assert seen.refusal == Refusal("NameTaken", "words")
    assert (seen.deleting, seen.volume_is_shared) == (True, True)


@pytest.mark.parametrize(
    ("made_with", "template", "claimed"),
    [
        pytest.param("4", TEMPLATE, 4, id="the claim was replaced since"),
        pytest.param("", TEMPLATE, 8, id="it was made before claims were counted"),
        pytest.param("4", "another", 8, id="the template was replaced as well"),
    ],
)
def test_workers_have_the_devices_that_they_were_made_with(
    made_with: str, template: str, claimed: int
) -> None:
    seen = Bench().see(
        job(status={"nextWorkerId": 1}),
        pod(0, template=template, devices=made_with),
        devices=Devices(8),
    )
    assert seen.claimed == claimed
    assert seen.workers[0].pod.requests.claimed == (int(made_with) if made_with else 0)


def test_that_devices_cannot_be_counted_is_said() -> None:
    seen = Bench().see(job(), devices=Devices(why_unknown="no claim"))
    assert (seen.claimed, seen.claims_uncounted) == (0, "no claim")


def test_losses_have_an_age_and_an_error_is_forgotten() -> None:
    bench = Bench()
    world = {"number": 1, "members": "0-1", "active": True, "entry": "Restart"}
    trains = job(status={"world": world, "nextWorkerId": 2})
    assert bench.see(trains, pod(0), pod(1, "n0")).lost_seconds == {}
    assert bench.see(trains, pod(0), pod(1, "n1")).lost_seconds == {1: 0.0}
    bench.seconds += 0.25
    assert bench.see(trains, pod(0), pod(1, "n1")).lost_seconds == {1: 0.25}
    assert bench.see(trains, pod(0), pod(1, "n0")).lost_seconds == {}
    assert bench.see(trains, pod(0)).lost_seconds == {1: 0.0}


def test_whom_both_neighbours_miss_is_missed_since_they_first_both_did() -> None:
    bench = Bench()
    world = {"number": 1, "members": "0-2", "active": True, "entry": "Restart"}
    trains = job(status={"world": world, "nextWorkerId": 3})
    pods = (pod(0, "n0"), pod(1, "n0"), pod(2, "n0"))
    bench.agents.take_report(UID, 0, Report(arrived=1, suspects=(1,)))
    assert bench.see(trains, *pods).missed_seconds == {}
    bench.agents.take_report(UID, 2, Report(arrived=1, suspects=(1,)))
    assert bench.see(trains, *pods).missed_seconds == {1: 0.0}
    bench.seconds += 3
    assert bench.see(trains, *pods).missed_seconds == {1: 3.0}
    bench.agents.take_report(UID, 2, Report(arrived=1))
    assert bench.see(trains, *pods).missed_seconds == {}


def test_a_worker_that_is_being_deleted_is_lost_when_its_grace_ends() -> None:
    world = {"number": 1, "members": "0", "active": True, "entry": "Restart"}
    trains = job(status={"world": world, "nextWorkerId": 1})
    bench = Bench()
    bench.agents.take_report(UID, 0, Report())
    going = pod(0, "n0")
    for killed_at, lost in (("2026-03-02T13:00:01Z", {}), ("2026-03-02T13:00:00Z", {0: 0.0})):
        meta = msgspec.structs.replace(going.metadata, deletion_timestamp=killed_at)
        seen = bench.see(trains, msgspec.structs.replace(going, metadata=meta))
        assert seen.lost_seconds == lost


def test_of_a_spec_that_this_operator_cannot_read_all_other_parts_are_read() -> None:
    spec = a_spec(2, min=2, suspend=True, priority=7).manifest()
    spec |= {"schedule": {"windows": [{"days": ["Someday"]}]}, "budget": {"maxCostUsd": "5"}}
    seen = Bench().look(job(spec, status={"nextWorkerId": 4}))
    assert seen.broken is not None
    words = seen.broken.message
    assert words.startswith("this operator cannot read the job: spec.schedule.windows.0.")
    assert len(words) <= 1000
    assert (seen.has_ledger, seen.may_be_published) == (True, True)
    assert (seen.namespace, seen.name, seen.uid, seen.version) == ("ns", "job", UID, "7")
    assert seen.status == JobState(next_worker_id=4)
    read = (seen.spec.suspend, seen.spec.priority, seen.spec.schedule)
    assert read == (True, 7, None)
    assert seen.spec.budget == Budget.model_validate_json('{"maxCostUsd": "5"}')
    assert seen.spec.workers == a_spec(2, min=2).workers


def test_nobody_is_told_how_to_train_by_a_template_that_cannot_be_read() -> None:
    spec = a_spec(2, suspend=True).manifest()
    spec["workers"]["template"]["spec"]["containers"] = "none"
    seen = Bench().look(job(spec, status={"nextWorkerId": 1}), pod(0, "n0"))
    assert (seen.has_ledger, seen.may_be_published) == (True, False)
    assert (seen.spec.suspend, seen.spec.workers.replicas) == (True, 2)
    assert [worker.worker_id for worker in seen.workers] == [0]


def test_a_template_of_odd_types_breaks_one_job_in_words() -> None:
    spec = a_spec(2).manifest()
    spec["workers"]["template"]["spec"]["volumes"] = True
    seen = Bench().look(job(spec))
    assert seen.broken is not None
    assert "this operator cannot read the job: workers.template.spec" in seen.broken.message
    assert seen.may_be_published


def test_a_job_at_which_a_look_fails_can_still_be_let_go_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("a mistake")

    monkeypatch.setattr("spotrun.observe.jobs.snapshot.missed_by_both", fail)
    seen = Bench().look(job(status={"nextWorkerId": 1}), pod(0))
    assert seen.broken is not None
    assert (seen.broken.reason, seen.has_ledger) == (Reason.UNDECIDED, True)
    assert [worker.worker_id for worker in seen.workers] == [0]


def test_a_pod_whose_number_was_never_given_out_is_none_of_the_workers() -> None:
    seen = Bench().see(job(status={"nextWorkerId": 1}), pod(0), pod(1))
    assert [worker.worker_id for worker in seen.workers] == [0]


def test_a_ledger_that_cannot_be_read_is_not_taken_for_an_empty_one() -> None:
    seen = Bench().look(job(status={"nextWorkerId": -1}), pod(3, "n0"))
    assert seen.broken is not None
    assert "status.nextWorkerId" in seen.broken.message
    assert (seen.has_ledger, seen.may_be_published) == (False, False)
    assert [worker.worker_id for worker in seen.workers] == [3], "by its owner and name"


def test_specs_are_read_once_a_generation_and_statuses_once_a_version() -> None:
    bench = Bench()
    first = bench.see(job(status={"nextWorkerId": 1}))
    again = bench.see(job(status={"nextWorkerId": 1}))
    assert first.spec is again.spec
    assert first.status is again.status
    written = bench.see(job(status={"nextWorkerId": 2}, resourceVersion="8"))
    assert written.spec is first.spec
    assert written.status.next_worker_id == 2
    edited = bench.see(job(a_spec(3).manifest(), resourceVersion="9", generation=3))
    assert edited.spec.workers.replicas == 3
    bench.readings.forget(UID)
    assert bench.see(job(status={"nextWorkerId": 1})).spec is not first.spec


def test_versions_that_come_again_with_other_content_are_read_again() -> None:
    """As after etcd was restored from a copy."""
    bench = Bench()
    bench.see(job(a_spec(3).manifest(), status={"nextWorkerId": 1}))
    again = bench.see(job(a_spec(4).manifest(), status={"nextWorkerId": 2}))
    assert (again.spec.workers.replicas, again.status.next_worker_id) == (4, 2)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"nextWorkerId": 2_147_483_647}, "2147483647 of the 2147483647 numbers below"),
        ({"nextWorkerId": 9, "settled": "2-999999999"}, "settled names worker id 999999999, but"),
        ({"nextWorkerId": 9, "settled": "+2-3,900000000"}, "settled names worker id 900000005,"),
        ({"nextWorkerId": 9, "lost": "0-999999999"}, "status.lost names 1000000000 workers"),
        (
            {"nextWorkerId": 9, "world": {**WORLD, "members": "0-999999999"}},
            "status.world.members names 1000000000 workers",
        ),
        (
            {
                "nextWorkerId": 9,
                "accumulators": {"rates": [{"workers": "0-999999999", "usdPerHour": "1"}]},
            },
            "status.accumulators.rates names 1000000000 workers",
        ),
        ({"nextWorkerId": 9, "lost": "3,9"}, "status.lost names worker id 9, but nextWorkerId"),
        ({"nextWorkerId": 9, "failed": "12,3"}, "status.failed names worker id 12, but"),
        (
            {"nextWorkerId": 9, "world": {**WORLD, "members": "0-1", "lateWorkers": "+2,7-8"}},
            "status.world.lateWorkers names worker id 17, but",
        ),
        (
            {
                "nextWorkerId": 9,
                "accumulators": {"rates": [{"workers": "7-999999", "usdPerHour": "1"}]},
            },
            "status.accumulators.rates names 999993 workers",
        ),
        (
            {
                "nextWorkerId": 9,
                "accumulators": {"rates": [{"workers": "7-10006", "usdPerHour": "1"}]},
            },
            "status.accumulators.rates names worker id 10006, but",
        ),
    ],
)
def test_a_ledger_that_cannot_be_true_is_refused_without_looking_at_each_number(
    status: dict[str, Any], words: str
) -> None:
    tracemalloc.start()
    seen = Bench().look(job(status=status), pod(0), pod(1))
    said = decide(seen, NOW).status
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (seen.has_ledger, seen.may_be_published) == (False, False)
    assert words in (said.message or "")
    stated = find(said, ConditionType.DECIDED)
    assert stated is not None
    assert (stated.status, stated.reason) == (ConditionStatus.FALSE, Reason.LEDGER_REFUSED.value)
    assert said.next_worker_id == status["nextWorkerId"]
    assert peak_bytes < 4_000_000


def test_a_ledger_of_millions_that_are_settled_is_true() -> None:
    live = WorkerIds.of(range(900_000, 920_000, 2))
    others = Intervals.of_intervals([(0, 899_999), *((n, n) for n in range(900_001, 920_000, 2))])
    status = {"nextWorkerId": 920_000, "settled": others, "lost": live}
    seen = Bench().look(job(status=status))
    assert isinstance(seen, JobSnapshot)
    assert seen.status.lost == live.set


def test_annotations_on_the_script_are_kept_apart_from_those_on_its_cost() -> None:
    cost, script = {"spotrun.dev/cost-usd": "1.50"}, {"spotrun.dev/total-steps": "2000"}
    seen = Bench().see(job(annotations={**cost, **script, "other": "x"}))
    assert (seen.annotated, seen.script) == (cost, script)


def test_a_trial_is_known_by_its_label() -> None:
    labels = {"team": "vision", "spotrun.dev/tuning-job": "lr"}
    seen = Bench().see(job(labels=labels))
    assert (seen.is_trial, seen.cost_labels) == (True, {"team": "vision"})
    assert not Bench().see(job(labels={"team": "vision"})).is_trial
