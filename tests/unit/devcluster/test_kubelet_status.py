from datetime import UTC, datetime
from typing import Any

import pytest

from devcluster.kubelet.lifecycle import Timing, is_restarted, restart_delay
from devcluster.kubelet.records import (
    NODE_SHUTDOWN,
    ContainerRecord,
    PodRecord,
    Running,
    Terminated,
    Waiting,
    first_records,
)
from devcluster.kubelet.runtime import Exit, Manifest
from devcluster.kubelet.status import cut_message, pod_phase, pod_status, status_patch

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ENDED = datetime(2026, 1, 2, 3, 5, 5, tzinfo=UTC)
NOW = datetime(2026, 1, 2, 3, 6, 5, tzinfo=UTC)
CREATING = ContainerRecord(Waiting("ContainerCreating"))
RUNNING = ContainerRecord(Running(BEGAN), container_id="devcluster://1")


def ended(code: int, message: str = "") -> ContainerRecord:
    how = Terminated(Exit(code, message=message), ENDED, BEGAN, "devcluster://1")
    return ContainerRecord(how, container_id="devcluster://1")


def pod(*containers: str, inits: tuple[Manifest, ...] = (), **status: Any) -> Manifest:
    spec: Manifest = {"containers": [{"name": c, "image": "image:1"} for c in containers]}
    if inits:
        spec["initContainers"] = list(inits)
    meta = {"name": "p", "namespace": "default", "uid": "u", "generation": 1}
    return {"metadata": meta, "spec": spec, "status": status}


def record(pod_ip: str = "10.128.0.1", **containers: ContainerRecord) -> PodRecord:
    return PodRecord(containers, BEGAN, "127.20.0.1", pod_ip)


def over(verdict: Any = None, **containers: ContainerRecord) -> PodRecord:
    return PodRecord(containers, BEGAN, "127.20.0.1", "10.128.0.1", is_over=True, verdict=verdict)


def condition(kind: str, status: str, **more: Any) -> Manifest:
    since = "2026-01-02T03:06:05Z"
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": since,
        "observedGeneration": 1,
        **more,
    }


def test_the_status_of_a_running_pod() -> None:
    assert pod_status(pod("main"), record(main=RUNNING), NOW) == {
        "phase": "Running",
        "observedGeneration": 1,
        "conditions": [
            condition("PodReadyToStartContainers", "True"),
            condition("Initialized", "True"),
            condition("Ready", "True"),
            condition("ContainersReady", "True"),
        ],
        "hostIP": "127.20.0.1",
        "hostIPs": [{"ip": "127.20.0.1"}],
        "podIP": "10.128.0.1",
        "podIPs": [{"ip": "10.128.0.1"}],
        "startTime": "2026-01-02T03:04:05Z",
        "containerStatuses": [
            {
                "name": "main",
                "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}},
                "lastState": {},
                "ready": True,
                "started": True,
                "restartCount": 0,
                "image": "image:1",
                "imageID": "devcluster://image:1",
                "containerID": "devcluster://1",
            }
        ],
    }


def test_the_status_of_a_pod_that_a_node_shutdown_ended() -> None:
    words = "Pod was terminated in response to imminent node shutdown."
    failed = {"reason": "PodFailed"}
    assert pod_status(pod("main"), over(NODE_SHUTDOWN, main=ended(143, "bye")), NOW) == {
        "phase": "Failed",
        "reason": "Terminated",
        "message": words,
        "observedGeneration": 1,
        "conditions": [
            condition("PodReadyToStartContainers", "False"),
            condition("Initialized", "True"),
            condition("Ready", "False", **failed),
            condition("ContainersReady", "False", **failed),
            condition("DisruptionTarget", "True", reason="TerminationByKubelet", message=words),
        ],
        "hostIP": "127.20.0.1",
        "hostIPs": [{"ip": "127.20.0.1"}],
        "podIP": "10.128.0.1",
        "podIPs": [{"ip": "10.128.0.1"}],
        "startTime": "2026-01-02T03:04:05Z",
        "containerStatuses": [
            {
                "name": "main",
                "state": {
                    "terminated": {
                        "exitCode": 143,
                        "reason": "Error",
                        "message": "bye",
                        "startedAt": "2026-01-02T03:04:05Z",
                        "finishedAt": "2026-01-02T03:05:05Z",
                        "containerID": "devcluster://1",
                    }
                },
                "lastState": {},
                "ready": False,
                "started": False,
                "restartCount": 0,
                "image": "image:1",
                "imageID": "devcluster://image:1",
                "containerID": "devcluster://1",
            }
        ],
    }


def test_the_status_of_a_container_that_waits_for_its_restart() -> None:
    how = Terminated(Exit(1), ENDED, BEGAN, "devcluster://1")
    back_off = ContainerRecord(
        Waiting("CrashLoopBackOff", "back-off 10s"), how, 2, "devcluster://1"
    )
    (status,) = pod_status(pod("main"), record(main=back_off), NOW)["containerStatuses"]
    assert status["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert status["restartCount"] == 2


def test_conditions_name_the_containers_that_hold_them_up() -> None:
    inits = ({"name": "fetch", "image": "i"}, {"name": "unpack", "image": "i"})
    status = pod_status(
        pod("main", "helper", inits=inits),
        record(fetch=ended(0), unpack=RUNNING, main=CREATING, helper=CREATING),
        NOW,
    )
    said = {
        c["type"]: (c["status"], c.get("reason"), c.get("message")) for c in status["conditions"]
    }
    assert said == {
        "PodReadyToStartContainers": ("True", None, None),
        "Initialized": (
            "False",
            "ContainersNotInitialized",
            "containers with incomplete status: [unpack]",
        ),
        "Ready": (
            "False",
            "ContainersNotReady",
            "containers with unready status: [main helper]",
        ),
        "ContainersReady": (
            "False",
            "ContainersNotReady",
            "containers with unready status: [main helper]",
        ),
    }
    assert [s["name"] for s in status["initContainerStatuses"]] == ["fetch", "unpack"]


SIDECAR = {"name": "proxy", "image": "i", "restartPolicy": "Always"}
INIT = {"name": "fetch", "image": "i"}


@pytest.mark.parametrize(
    ("inits", "state", "phase"),
    [
        ((), record("", main=CREATING), "Pending"),
        ((), record(main=RUNNING), "Running"),
        ((), record(main=ended(1)), "Running"),  # ended, but perhaps to be started again
        ((), over(main=ended(0)), "Succeeded"),
        ((), over(main=ended(1)), "Failed"),
        ((), over(NODE_SHUTDOWN, main=ended(0)), "Failed"),
        ((INIT,), record(fetch=RUNNING, main=CREATING), "Pending"),
        ((INIT,), record(fetch=ended(0), main=RUNNING), "Running"),
        ((INIT,), over(fetch=ended(1), main=CREATING), "Failed"),
        ((SIDECAR,), record(proxy=CREATING, main=CREATING), "Pending"),
        ((SIDECAR,), record(proxy=RUNNING, main=RUNNING), "Running"),
        ((SIDECAR,), over(proxy=ended(143), main=ended(0)), "Succeeded"),
    ],
)
def test_the_phase_follows_from_the_containers(
    inits: tuple[Manifest, ...], state: PodRecord, phase: str
) -> None:
    assert pod_phase(pod("main", inits=inits), state) == phase


def test_a_pod_of_two_containers_is_pending_until_both_have_started() -> None:
    two = pod("main", "helper")
    assert pod_phase(two, record(main=RUNNING, helper=CREATING)) == "Pending"
    assert pod_phase(two, record(main=ended(0), helper=RUNNING)) == "Running"
    assert pod_phase(two, over(main=ended(0), helper=ended(1))) == "Failed"


def test_a_condition_keeps_its_time_until_it_changes() -> None:
    first = pod_status(pod("main"), record(main=RUNNING), BEGAN)
    later = pod_status(pod("main", **first), over(main=ended(0)), NOW)
    times = {c["type"]: c["lastTransitionTime"] for c in later["conditions"]}
    assert times == {
        "PodReadyToStartContainers": "2026-01-02T03:06:05Z",
        "Initialized": "2026-01-02T03:04:05Z",
        "Ready": "2026-01-02T03:06:05Z",
        "ContainersReady": "2026-01-02T03:06:05Z",
    }


def test_a_patch_takes_back_reasons_and_replaces_addresses() -> None:
    waiting = pod("main", **pod_status(pod("main"), record(main=CREATING), BEGAN))
    patch = status_patch(waiting, pod_status(waiting, record(main=RUNNING), NOW))
    assert patch["metadata"] == {"uid": "u"}
    ready = next(c for c in patch["status"]["conditions"] if c["type"] == "Ready")
    assert ready == condition("Ready", "True", reason=None, message=None)
    assert patch["status"]["podIPs"] == [{"ip": "10.128.0.1"}, {"$patch": "replace"}]


def test_a_termination_message_is_cut_at_4096_bytes_and_never_inside_a_character() -> None:
    assert cut_message("short") == "short"
    assert cut_message("x" * 5000) == "x" * 4096
    assert cut_message("x" + "\u00e9" * 3000) == "x" + "\u00e9" * 2047


def test_a_pod_that_ran_under_another_kubelet_has_lost_its_containers() -> None:
    before = pod("main", **pod_status(pod("main"), record(main=RUNNING), BEGAN))
    lost = first_records(before)["main"]
    assert lost.exit_code == 137
    assert isinstance(lost.state, Terminated)
    assert lost.state.exit.reason == "ContainerStatusUnknown"
    assert first_records(pod("main"))["main"] == CREATING


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Never", 1, False),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Always", 0, True),
        ("Always", 1, True),
    ],
)
def test_a_policy_says_whether_a_container_is_started_again(
    policy: str, code: int, again: bool
) -> None:
    assert is_restarted(policy, code) is again


def test_the_first_restart_is_immediate_and_the_next_wait_ever_longer() -> None:
    delays = [restart_delay(n, Timing()) for n in (1, 2, 3, 4, 7, 5000)]
    assert delays == [0, 10, 20, 40, 300, 300]
