"""What became of a worker."""

from typing import Any

import pytest

from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import Reason
from spotrun.api.status import Entry
from spotrun.state.snapshot import Node, PodEnd, PodPhase
from spotrun.state.worker_outcomes import NO_SHELL, WorkerOutcome, in_doubt, missed_by_both
from spotrun.wire import Ending
from tests.support.jobs.builders import NOW, JobBuilder, a_job, ago, an_end, later

SILENCE = WorkerOutcome(Reason.NODE_LOST, message="no sign of life from job-1", is_final=False)
RUNC_WITHOUT_SHELL = (
    "StartError: failed to create containerd task: failed to create shim task: OCI runtime create "
    'failed: runc create failed: unable to start container process: exec: "/bin/sh": stat /bin/sh: '
    "no such file or directory: unknown"
)
DOWN = Node("node-1", ready=False)


def no_start(reason: str, message: str = "") -> dict[str, Any]:
    """What a pod says none of whose containers was started."""
    end = PodEnd(pod_reason=reason, pod_message=message)
    return {"phase": PodPhase.FAILED, "end": end}


def outcome(job: JobBuilder, worker_id: int = 0) -> WorkerOutcome | None:
    return job.view().ends.get(worker_id)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({}, None),
        (an_end(Ending.COMPLETED), WorkerOutcome(None, 0)),
        (an_end(Ending.DEPARTED, message="bye"), WorkerOutcome(None, 0, "bye")),
        (an_end(Ending.PREEMPTED), WorkerOutcome(Reason.RECLAIMED, 0)),
        (an_end(Ending.FAILED, 3, "boom"), WorkerOutcome(Reason.EXIT_CODE, 3, "boom")),
        (
            an_end(Ending.UNUSABLE, 64, "no torch"),
            WorkerOutcome(Reason.UNUSABLE_IMAGE, 64, "no torch"),
        ),
        (
            an_end(None, 128, container_reason="StartError", container_message=RUNC_WITHOUT_SHELL),
            WorkerOutcome(Reason.UNUSABLE_IMAGE, 128, NO_SHELL),
        ),
        (
            an_end(None, 128, container_reason="StartError", container_message="no such file"),
            WorkerOutcome(Reason.EXIT_CODE, 128, "no such file"),
        ),
        (an_end(), WorkerOutcome(None, 0)),
        (an_end(None, 1), WorkerOutcome(Reason.EXIT_CODE, 1, "exit code 1")),
        (
            an_end(Ending.FAILED, 137, container_reason="OOMKilled"),
            WorkerOutcome(Reason.OOM_KILLED, 137, "a container exceeded its memory limit"),
        ),
        (
            {**an_end(None, 137), "disrupted": "PreemptionByScheduler"},
            WorkerOutcome(Reason.PREEMPTED, 137),
        ),
        (
            {**an_end(None, 137), "disrupted": "EvictionByEvictionAPI", "deleting": True},
            WorkerOutcome(Reason.DRAINED, 137),
        ),
        (
            {**an_end(None, 1), "disrupted": "DeletionByTaintManager"},
            WorkerOutcome(Reason.NODE_LOST, 1),
        ),
        ({**an_end(None, 1), "disrupted": "DeletionByPodGC"}, WorkerOutcome(Reason.NODE_LOST, 1)),
        (
            {
                **an_end(None, 1, pod_message="Pod was terminated in response to node shutdown."),
                "disrupted": "TerminationByKubelet",
            },
            WorkerOutcome(Reason.RECLAIMED, 1, "Pod was terminated in response to node shutdown."),
        ),
        (
            {**an_end(None, 1), "disrupted": "TerminationByKubelet"},
            WorkerOutcome(Reason.EVICTED, 1),
        ),
        (
            an_end(None, 1, pod_reason="Evicted", pod_message="disk"),
            WorkerOutcome(Reason.EVICTED, 1, "disk"),
        ),
        (
            {**no_start("Evicted", "disk"), "disrupted": "TerminationByKubelet"},
            WorkerOutcome(Reason.EVICTED, None, "disk"),
        ),
        (
            {
                **an_end(None, 137, pod_reason="Preempting", pod_message="a critical pod"),
                "disrupted": "TerminationByKubelet",
            },
            WorkerOutcome(Reason.PREEMPTED, 137, "a critical pod"),
        ),
        (no_start("OutOfcpu", "no"), WorkerOutcome(Reason.REJECTED, None, "OutOfcpu: no")),
        (no_start("NodeAffinity"), WorkerOutcome(Reason.REJECTED, None, "NodeAffinity")),
        (
            no_start("UnexpectedAdmissionError", "no healthy devices present"),
            WorkerOutcome(
                Reason.REJECTED, None, "UnexpectedAdmissionError: no healthy devices present"
            ),
        ),
        (
            no_start("Evicted", "The node had condition: [DiskPressure]."),
            WorkerOutcome(
                Reason.REJECTED, None, "Evicted: The node had condition: [DiskPressure]."
            ),
        ),
        (
            no_start("NodeShutdown", "Pod was rejected as the node is shutting down."),
            WorkerOutcome(Reason.RECLAIMED, None, "Pod was rejected as the node is shutting down."),
        ),
        (
            {**no_start("OutOfcpu", "no"), "disrupted": "DeletionByPodGC"},
            WorkerOutcome(Reason.NODE_LOST, None, "no"),
        ),
        (no_start("DeadlineExceeded", "late"), WorkerOutcome(Reason.EXIT_CODE, None, "late")),
    ],
)
def test_the_platform_comes_first_then_own_words_then_the_exit_code(
    pod: dict[str, Any], expected: WorkerOutcome | None
) -> None:
    assert outcome(a_job().with_worker(0, **pod)) == expected


@pytest.mark.parametrize(
    "said",
    ["no data", "RuntimeError: data node is shutting down", "Error: saw a node shutdown"],
)
@pytest.mark.parametrize("exit_code", [1, None], ids=["the trainer", "an init container"])
def test_a_program_that_speaks_as_the_platform_does_has_failed(
    said: str, exit_code: int | None
) -> None:
    end = PodEnd(exit_code=exit_code, container_message=said)
    job = a_job().with_worker(0, phase=PodPhase.FAILED, end=end)
    assert outcome(job) == WorkerOutcome(Reason.EXIT_CODE, exit_code, said)


@pytest.mark.parametrize("reason", [Ending.PREEMPTED, Ending.FAILED, None])
def test_whoever_was_told_to_end_has_not_failed(reason: Ending | None) -> None:
    ended = outcome(a_job().with_worker(0, deleting=True, **an_end(reason, 143)))
    assert ended is not None
    assert ended.cause is None


@pytest.mark.parametrize(
    ("failed", "disrupted", "cause"),
    [
        ({0}, None, Reason.EXIT_CODE),
        ({1}, None, None),
        (set(), None, None),
        ({0}, "DeletionByPodGC", Reason.NODE_LOST),
    ],
)
def test_who_had_failed_before_it_was_told_to_end_has_failed(
    failed: set[int], disrupted: str | None, cause: Reason | None
) -> None:
    pod = {"deleting": True, "end": PodEnd(exit_code=1), "disrupted": disrupted}
    job = a_job().with_worker(0, **pod)
    ended = outcome(job.with_status(failed=frozenset(failed)))
    assert ended is not None
    assert ended.cause is cause


def test_a_deleted_pod_trains_on_until_its_grace_is_over() -> None:
    job = a_job().with_worker(0, ready=True, deleting=True, killed_at=later(30))
    assert outcome(job) is None
    gone = job.view(later(30)).ends[0]
    assert gone == WorkerOutcome(None, message="its pod was deleted", is_final=False)


def test_a_deleted_pod_that_never_had_a_node_is_settled_at_once() -> None:
    job = a_job().with_worker(0, node=None, deleting=True)
    assert outcome(job) == WorkerOutcome(None, message="its pod was deleted")


SILENT_NODE = Node("n", ready=False, unreachable_at=ago(40))
FORCED = {"deleting": True, "killed_at": NOW, "is_forced": True}


@pytest.mark.parametrize(
    ("node", "pod", "is_over"),
    [
        pytest.param(SILENT_NODE, FORCED, True, id="its machine is dead, as somebody says"),
        pytest.param(Node("n"), FORCED, False, id="its kubelet will end it"),
        pytest.param(Node("n", ready=False), FORCED, False, id="its kubelet says something"),
        pytest.param(
            SILENT_NODE,
            {**FORCED, "is_forced": False},
            False,
            id="whoever deleted it leaves it to its kubelet",
        ),
    ],
)
@pytest.mark.parametrize("lost", [frozenset[int](), frozenset({0})])
def test_a_pod_is_over_that_is_given_up_by_force_on_a_node_that_does_not_answer(
    lost: frozenset[int], node: Node, pod: dict[str, Any], is_over: bool
) -> None:
    job = a_job().with_worker(0, ready=True, heard=60.0, node=node, **pod).with_status(lost=lost)
    found = outcome(job)
    assert found is not None
    assert found.is_final == is_over
    decision = job.with_spec(1, suspend=True).decide()
    assert str(decision.status.settled) == ("0" if is_over else "")


def test_who_calls_is_not_over_whatever_others_say() -> None:
    job = a_job(1, suspend=True).with_worker(0, ready=True, node=SILENT_NODE, **FORCED)
    assert not job.decide().status.settled.size


def test_a_pod_whose_node_is_no_more_is_lost_for_good() -> None:
    job = a_job().with_worker(0, node=Node("n", gone=True))
    assert outcome(job) == WorkerOutcome(Reason.NODE_LOST, message="node n is gone")


def test_a_pod_made_by_a_write_believed_lost_does_not_count() -> None:
    job = a_job().with_worker(0, ready=True).with_status(settled=WorkerIds("0").ranges)
    assert outcome(job) == WorkerOutcome(None, message="its number is settled")


@pytest.mark.parametrize(
    ("heard", "node", "suspects", "leading", "expected"),
    [
        (5.0, Node("node-1"), (), 3600.0, None),
        (0.5, DOWN, (), 3600.0, None),
        (5.0, DOWN, (), 3600.0, SILENCE),
        (0.5, Node("node-1"), (1,), 3600.0, None),
        (5.0, Node("node-1"), (1,), 3600.0, SILENCE),
        (5.0, Node("node-1"), (0,), 3600.0, None),
        (5.0, DOWN, (1,), 59.0, SILENCE),
        (60.0, DOWN, (1,), 9.9, None),  # heard by this replica when it led before
        (60.0, DOWN, (1,), 10.0, SILENCE),  # the other one had found it by then
        (60.0, Node("node-1"), (), 10.0, None),
    ],
)
def test_silence_counts_only_with_a_bad_node_or_suspicious_peers(
    heard: float,
    node: Node,
    suspects: tuple[int, ...],
    leading: float,
    expected: WorkerOutcome | None,
) -> None:
    job = (
        a_job(2)
        .training(0, suspects=suspects)
        .with_worker(1, ready=True, arrived=1, heard=heard, node=node)
        .with_world("0-1")
        .with_facts(leading_seconds=leading)
    )
    assert outcome(job, 1) == expected


@pytest.mark.parametrize(
    ("by", "missed_for", "expected"),
    [
        ((0, 2), 9.9, None),
        (
            (0, 2),
            10.0,
            WorkerOutcome(
                Reason.NODE_LOST, message="neither neighbour reaches job-1", is_final=False
            ),
        ),
        ((0,), 99.0, None),
        ((), 99.0, None),
    ],
)
def test_who_answers_us_but_neither_neighbour_is_cut_off(
    by: tuple[int, ...], missed_for: float, expected: WorkerOutcome | None
) -> None:
    job = a_job(3).training(0, 1, 2)
    for worker_id in by:
        job = job.with_worker(worker_id, ready=True, arrived=1, suspects=(1,))
    missed = missed_by_both(job.snapshot())
    assert missed == ({1} if len(by) > 1 else set())
    job = job.with_facts(missed_seconds=dict.fromkeys(missed, missed_for))
    assert outcome(job, 1) == expected


def test_of_two_workers_that_miss_each_other_neither_is_cut_off() -> None:
    job = a_job(2).with_worker(0, ready=True, arrived=1, suspects=(1,))
    job = job.with_worker(1, ready=True, arrived=1, suspects=(0,)).with_world("0-1")
    assert missed_by_both(job.snapshot()) == set()


def test_suspects_are_ranks_of_the_world_that_trains_not_of_the_prepared_one() -> None:
    job = (
        a_job(3)
        .with_worker(0, ready=True, arrived=1, suspects=(1,))
        .with_worker(1, ready=True, arrived=1, heard=9.0)
        .with_worker(2, ready=False, heard=9.0)
        .with_world("0,2", 2, is_active=False, state_holders="0-1", training_number=1)
    )
    assert in_doubt(job.snapshot()) == {1}
    assert set(job.view().ends) == {1}


@pytest.mark.parametrize(
    ("broken", "heard", "expected"),
    [(3, 5.0, SILENCE), (3, 0.5, None), (2, 5.0, None), (0, 5.0, None)],
)
def test_a_world_that_broke_right_after_it_was_entered_tells_who_is_silent(
    broken: int, heard: float, expected: WorkerOutcome | None
) -> None:
    """Neighbours miss nobody yet: they have heard no heartbeat in it."""
    job = (
        a_job(2)
        .training(0, world_number=3, broken=broken)
        .with_worker(1, ready=True, arrived=3, heard=heard)
        .with_world("0-1", 3, entry=Entry.BOUNDARY, state_holders="0", joining_workers="1")
    )
    assert in_doubt(job.snapshot()) == (frozenset((0, 1)) if broken == 3 else frozenset())
    assert outcome(job, 1) == expected
    assert outcome(job, 0) is None


@pytest.mark.parametrize(
    ("entry", "arrived", "heard", "expected"),
    [
        (Entry.BOUNDARY, 2, 5.0, SILENCE),
        (Entry.BOUNDARY, 2, 0.5, None),
        (Entry.BOUNDARY, 3, 5.0, None),
        (Entry.RESTART, 2, 5.0, None),
    ],
)
def test_a_warm_joining_worker_that_does_not_come_is_asked_whether_it_lives(
    entry: Entry, arrived: int, heard: float, expected: WorkerOutcome | None
) -> None:
    job = (
        a_job(2)
        .training(0, world_number=3)
        .with_worker(1, ready=True, arrived=arrived, heard=heard)
        .with_world("0-1", 3, entry=entry, state_holders="0", joining_workers="1")
    )
    assert outcome(job, 1) == expected


@pytest.mark.parametrize(
    ("gone", "settled", "doubted"), [(False, "", {1}), (True, "", set()), (False, "1", set())]
)
def test_a_worker_that_is_known_to_be_lost_is_asked_for_no_sign_of_life(
    gone: bool, settled: str, doubted: set[int]
) -> None:
    """Else its job would decide every half second until Kubernetes removes the pod."""
    job = a_job(2).training(0).with_worker(1, ready=True, node=Node("n", ready=False, gone=gone))
    job = job.with_status(settled=WorkerIds(settled).ranges)
    assert in_doubt(job.snapshot()) == doubted


def test_a_replacement_that_has_to_start_first_is_not_doubted_while_it_does() -> None:
    """Whoever imports PyTorch is waited for, and is too busy to answer within a second."""
    job = (
        a_job(2)
        .training(0, world_number=3)
        .with_worker(1, ready=True, in_process=False, heard=5.0)
        .with_world("0-1", 3, entry=Entry.ABORT, state_holders="0", joining_workers="1")
    )
    assert in_doubt(job.snapshot()) == frozenset()
    assert outcome(job, 1) is None


def test_a_member_that_never_came_over_to_a_new_leader_is_lost_once_another_had_time_to() -> None:
    job = a_job(2).training(0, suspects=(1,)).with_worker(1).with_world("0-1")
    assert outcome(job, 1) == SILENCE
    assert outcome(job.with_facts(leading_seconds=9.0), 1) is None
    assert outcome(job.with_facts(leading_seconds=11.0), 1) == SILENCE


def test_where_nobody_has_found_a_new_leader_yet_nobody_is_lost_for_a_minute() -> None:
    job = a_job(2).with_worker(0).with_worker(1, node=DOWN).with_world("0-1")
    assert outcome(job.with_facts(leading_seconds=59.0), 1) is None
    assert outcome(job.with_facts(leading_seconds=61.0), 1) == SILENCE


def test_a_pod_of_an_unknown_phase_is_alive() -> None:
    assert outcome(a_job().with_worker(0, phase=PodPhase.PENDING)) is None
