from datetime import UTC, datetime
from typing import Any

import pytest

from demo.market import NodeRequirement
from demo.scene import (
    ClusterEvent,
    Node,
    Scene,
    Seen,
    Step,
    Worker,
    compose,
    read_event,
    read_node,
    read_step,
    read_world,
    worker_ids,
)


def pod(worker_id: int, node: str | None = None, **status: Any) -> dict[str, Any]:
    labels = {"spotrun.dev/worker-id": str(worker_id)}
    return {
        "metadata": {"name": f"job-x-{worker_id}", "labels": labels},
        "spec": {"nodeName": node} if node else {},
        "status": status,
    }


def node(name: str, *, ready: str = "True", **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "labels": {
                "karpenter.sh/capacity-type": "spot",
                "topology.kubernetes.io/zone": "us-east-1a",
            },
            "annotations": {"spotrun.dev/usd-per-hour": "0.31", **annotations},
        },
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def test_a_cluster_without_the_job_is_an_empty_scene() -> None:
    assert Scene(1.5) == compose(Seen(), 1.5)


def test_a_scene_is_read_from_objects() -> None:
    status = {
        "phase": "Running",
        "reason": "Training",
        "message": "2 workers train",
        "progress": {"step": 100, "totalSteps": 400},
        "world": {"number": 3, "members": "2,0", "active": True},
        "checkpoint": {"name": "step-80.g2", "step": 80},
        "interruptions": {"count": 1},
        "decisions": [
            {"what": "World", "why": "all workers are ready", "numbers": {"world": "2"}},
            {"what": "World", "why": "1 of 3 workers are gone", "numbers": {"world": "3"}},
        ],
    }
    seen = Seen(
        job={"spec": {"workers": {"replicas": 3}}, "status": status},
        pods={
            "job-x-2": pod(2, "n2", phase="Running"),
            "job-x-0": pod(0, "n0", phase="Running"),
            "job-x-3": pod(3),
        },
        nodes={"n2": node("n2"), "n0": node("n0", ready="Unknown")},
        events=[ClusterEvent(1.0, "TrainingJob", "Training: world 3")],
        step=Step(120, 3.2),
    )

    expected = Scene(
        seconds=30.0,
        phase="Running",
        reason="Training",
        message="2 workers train",
        wanted=3,
        total_steps=400,
        step=Step(120, 3.2),
        world=3,
        members=(2, 0),
        why="1 of 3 workers are gone",
        checkpoint="step-80.g2",
        interruptions=1,
        workers=(
            Worker(0, "job-x-0", "Running", "n0", rank=1),
            Worker(2, "job-x-2", "Running", "n2", rank=0),
            Worker(3, "job-x-3", "Pending"),
        ),
        nodes=(
            Node("n0", "us-east-1a", "spot", "0.31", is_ready=False),
            Node("n2", "us-east-1a", "spot", "0.31"),
        ),
        events=(ClusterEvent(1.0, "TrainingJob", "Training: world 3"),),
    )
    assert expected == compose(seen, 30.0)


def test_what_a_worker_asks_of_its_node_is_read() -> None:
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]}
    gpu = {"key": "gpu", "operator": "Exists"}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [zone, gpu]}, {}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    waiting = pod(3) | {"spec": {"affinity": {"nodeAffinity": required}}}
    (worker,) = compose(Seen(pods={"job-x-3": waiting}), 0.0).workers
    asked = NodeRequirement("topology.kubernetes.io/zone", "In", ("us-east-1a",))
    assert ((asked, NodeRequirement("gpu", "Exists", ())),) == worker.terms


def test_the_number_of_all_steps_is_remembered_while_nobody_states_it() -> None:
    silent = {"status": {"progress": {"step": 7}}}
    assert compose(Seen(job=silent, total_steps=400), 0.0).total_steps == 400
    stated = {"status": {"progress": {"step": 7, "totalSteps": 500}}}
    assert compose(Seen(job=stated, total_steps=400), 0.0).total_steps == 500


def test_costs_are_shown_as_the_operator_states_them() -> None:
    cost = {"usd": "0.0123", "usdPerHour": "1.61", "savedUsd": "0.02"}
    scene = compose(Seen(job={"status": {"cost": cost}}), 0.0)
    assert (scene.usd, scene.usd_per_hour, scene.saved_usd) == ("0.0123", "1.61", "0.02")


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        pytest.param({}, (0, (), None), id="none yet"),
        pytest.param(
            {"number": 1, "members": "0-2", "active": True}, (1, (0, 1, 2), None), id="one"
        ),
        pytest.param(
            {
                "number": 2,
                "members": "0-1,3",
                "stateHolders": "0-2",
                "trainingNumber": 1,
                "active": False,
            },
            (1, (0, 1, 2), 2),
            id="another one is prepared while it trains",
        ),
        pytest.param(
            {"number": 1, "members": "0-2", "active": False},
            (0, (), 1),
            id="the first one is prepared",
        ),
        pytest.param(
            {"number": 3, "members": "", "stateHolders": "0", "active": False},
            (0, (), None),
            id="too few are left",
        ),
    ],
)
def test_the_world_that_trains(world: dict[str, Any], expected: tuple[Any, ...]) -> None:
    assert expected == read_world(world)


@pytest.mark.parametrize(
    ("text", "expected"), [("", ()), ("7", (7,)), ("2,0-1", (2, 0, 1)), ("0-2,10", (0, 1, 2, 10))]
)
def test_worker_ids_are_read_in_rank_order(text: str, expected: tuple[int, ...]) -> None:
    assert expected == worker_ids(text)


def test_a_notice_is_seen_on_the_node() -> None:
    manifest = node("n", **{"karpenter.sh/nodeclaim-termination-timestamp": "2026-01-02T03:06:05Z"})
    manifest["spec"]["taints"] = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    read = read_node(manifest)
    assert (True, datetime(2026, 1, 2, 3, 6, 5, tzinfo=UTC)) == (read.is_leaving, read.ends_at)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("step 120  loss 3.2154\n", Step(120, 3.2154)),
        ("step 120  lr 0.01  loss 3.2e-05  norm 1.5\n", Step(120, 3.2e-05)),
        ("step 500  val 2.4\n", Step(500)),
        ("Step: 7, loss: 0.5, time: 3 s\n", Step(7, 0.5)),
        ("step 8  loss 1.2.3\n", Step(8)),
        ("spotrun: told to end, after step 120\n", None),
        ("steps 120\n", None),
        ("[rank1]: RuntimeError: Connection reset by peer\n", None),
        ("", None),
    ],
)
def test_steps_are_read_from_the_log(line: str, expected: Step | None) -> None:
    assert expected == read_step(line)


@pytest.mark.parametrize(
    ("regarding", "reason", "expected"),
    [
        (("TrainingJob", "job"), "NodeLost", ("TrainingJob", "NodeLost: words")),
        (("TrainingJob", "other"), "NodeLost", None),
        (("Node", "n"), "SpotInterrupted", ("Node", "SpotInterrupted: words")),
        (("Node", "n"), "RegisteredNode", None),
        (("Pod", "job"), "Scheduled", None),
    ],
)
def test_events_about_the_job_and_spot_notices_are_told(
    regarding: tuple[str, str], reason: str, expected: tuple[str, str] | None
) -> None:
    kind, name = regarding
    event = {"regarding": {"kind": kind, "name": name}, "reason": reason, "note": "words"}
    assert expected == read_event(event, "job")
