from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from spotrun.api.names import FINALIZER_METERED, LABEL_JOB_UID, LABEL_TEMPLATE, LABEL_WORKER_ID
from spotrun.observe.jobs.pods import pod_facts, worker_id_in
from spotrun.observe.kube_objects import PodObject, PodSpec
from spotrun.state.names import worker_name
from spotrun.state.snapshot import Pod, PodEnd, PodPhase
from spotrun.wire import MESSAGE_CHARACTERS, Ending, LastWords

UID = "job-uid"
NAME = worker_name("job", UID, 3)


def pod(
    status: dict[str, Any] | None = None,
    containers: tuple[str, ...] = ("trainer",),
    **meta: Any,
) -> PodObject:
    metadata = {
        "name": NAME,
        "namespace": "ns",
        "uid": "pod-uid",
        "resourceVersion": "42",
        "labels": {LABEL_JOB_UID: UID, LABEL_WORKER_ID: "3", LABEL_TEMPLATE: "t1"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "another"},
            {"apiVersion": "v1", "kind": "T", "name": "job", "uid": UID, "controller": True},
        ],
        "finalizers": [FINALIZER_METERED],
        **meta,
    }
    spec = {"containers": [{"name": name} for name in containers]}
    found = {"metadata": metadata, "spec": spec, "status": status or {}}
    return msgspec.convert(found, PodObject, str_keys=True)


def ended(code: int, reason: str = "Error", message: str = "", name: str = "trainer") -> Any:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return {"name": name, "state": state, "ready": False}


RUNS = {"name": "trainer", "state": {"running": {"startedAt": "2026-03-02T12:00:00Z"}}}
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "message": "taint manager: deleting"}


def test_a_pod_that_runs() -> None:
    status = {"phase": "Running", "podIP": "10.0.0.3", "containerStatuses": [RUNS]}
    running = msgspec.structs.replace(pod(status), spec=PodSpec(node_name="n1"))
    assert pod_facts(running, 3) == Pod(
        worker_id=3,
        name=NAME,
        uid="pod-uid",
        version="42",
        template="t1",
        phase=PodPhase.RUNNING,
        node="n1",
        address="10.0.0.3",
    )


@pytest.mark.parametrize(
    ("reason", "is_guessed"),
    [
        pytest.param("Error", False, id="its kubelet saw it end"),
        pytest.param("Unknown", True, id="containerd found it ended"),
        pytest.param("ContainerStatusUnknown", True, id="its kubelet found nothing of it"),
    ],
)
def test_whether_an_end_was_seen_or_found_afterwards(reason: str, is_guessed: bool) -> None:
    containers = [ended(137, reason)]
    facts = pod_facts(pod({"phase": "Failed", "containerStatuses": containers}), 3)
    assert facts.end_is_guessed == is_guessed


def test_a_pod_that_is_being_deleted_has_until_its_grace_ends() -> None:
    facts = pod_facts(pod(deletionTimestamp="2026-03-02T12:02:00Z", finalizers=["other"]), 3)
    assert (facts.deleting, facts.metered) == (True, False)
    assert facts.killed_at == datetime(2026, 3, 2, 12, 2, tzinfo=UTC)


@pytest.mark.parametrize(("seconds", "is_forced"), [(None, False), (30, False), (0, True)])
def test_a_pod_that_is_deleted_without_grace_is_given_up(
    seconds: int | None, is_forced: bool
) -> None:
    grace: dict[str, Any] = {} if seconds is None else {"deletionGracePeriodSeconds": seconds}
    assert pod_facts(pod(**grace), 3).is_forced == is_forced


def test_a_phase_of_tomorrow_is_no_end() -> None:
    assert pod_facts(pod({"phase": "Unknown"}), 3).phase is PodPhase.RUNNING
    assert pod_facts(pod({"phase": "Unknown"}), 3).end is None


ENDS = [
    pytest.param(
        {"phase": "Failed", "containerStatuses": [ended(3)]},
        PodEnd(exit_code=3, container_reason="Error"),
        id="an exit code",
    ),
    pytest.param(
        {"phase": "Failed", "containerStatuses": [ended(128, "StartError", "no such file: train")]},
        PodEnd(
            exit_code=128,
            container_reason="StartError",
            container_message="StartError: no such file: train",
        ),
        id="the container could not be started",
    ),
    pytest.param(
        {
            "phase": "Failed",
            "message": "Pod was preempted.",
            "containerStatuses": [ended(1, "Error", "the data node is shutting down")],
        },
        PodEnd(
            exit_code=1,
            container_reason="Error",
            pod_message="Pod was preempted.",
            container_message="Error: the data node is shutting down",
        ),
        id="the platform and a program say something",
    ),
    pytest.param(
        {
            "phase": "Running",
            "containerStatuses": [{"name": "log", "state": {}}, ended(137, "OOMKilled")],
        },
        PodEnd(exit_code=137, container_reason="OOMKilled"),
        id="the trainer has ended, a side container runs on",
    ),
    pytest.param(
        {"phase": "Running", "containerStatuses": [RUNS, ended(1, name="log")]},
        None,
        id="a side container has ended, the trainer runs on",
    ),
    pytest.param(
        {
            "phase": "Failed",
            "reason": "Evicted",
            "message": "The node was low on resource: memory. ",
            "containerStatuses": [],
        },
        PodEnd(pod_reason="Evicted", pod_message="The node was low on resource: memory."),
        id="evicted before it ran",
    ),
    pytest.param(
        {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: Node ..."},
        PodEnd(pod_reason="OutOfcpu", pod_message="Pod was rejected: Node ..."),
        id="rejected by its node",
    ),
    pytest.param(
        {
            "phase": "Failed",
            "reason": "Terminated",
            "message": "Pod was terminated in response to imminent node shutdown.",
            "containerStatuses": [ended(143)],
        },
        PodEnd(
            exit_code=143,
            container_reason="Error",
            pod_reason="Terminated",
            pod_message="Pod was terminated in response to imminent node shutdown.",
        ),
        id="a node that shuts down",
    ),
    pytest.param(
        {"phase": "Failed", "conditions": [{**DISRUPTED, "reason": "DeletionByTaintManager"}]},
        PodEnd(pod_message="taint manager: deleting"),
        id="the condition says why where the pod does not",
    ),
    pytest.param(
        {
            "phase": "Failed",
            "initContainerStatuses": [ended(0, name="a"), ended(2, "Error", "no data", name="b")],
            "containerStatuses": [{"name": "trainer", "state": {"waiting": {}}}],
        },
        PodEnd(container_message="init container b ended with 2: no data"),
        id="an init container failed",
    ),
]


WORDS = 'noise\n{"reason": "departed", "step": 7}'
SAID = LastWords(Ending.DEPARTED, step=7)
NAMED = {"spotrun.dev/trainer": "main"}


@pytest.mark.parametrize(
    ("containers", "annotations"),
    [
        pytest.param(("main",), {}, id="the only one, of an older operator"),
        pytest.param(("main",), NAMED, id="the only one"),
        pytest.param(("main", "proxy"), NAMED, id="one was put behind it"),
        pytest.param(("proxy", "main", "trainer"), NAMED, id="others were put around it"),
        pytest.param(("proxy", "trainer"), {}, id="by its name, of an older operator"),
        pytest.param(("proxy", "trainer"), NAMED, id="by its name, where another name is no one's"),
    ],
)
def test_the_trainer_is_known_whatever_was_put_into_its_pod(
    containers: tuple[str, ...], annotations: dict[str, str]
) -> None:
    trainer = "main" if "main" in containers else "trainer"
    others = [ended(3, name=name) for name in containers if name != trainer]
    runs = {**RUNS, "name": trainer}
    amid = pod(
        {"phase": "Running", "containerStatuses": [*others, runs]},
        containers,
        annotations=annotations,
    )
    assert pod_facts(amid, 3).end is None
    over = {"phase": "Failed", "containerStatuses": [*others, ended(0, "", WORDS, name=trainer)]}
    assert pod_facts(pod(over, containers, annotations=annotations), 3).end == PodEnd(
        exit_code=0, words=SAID
    )


def test_what_no_container_of_the_template_says_is_no_end_of_a_trainer() -> None:
    ephemeral = {"ephemeralContainerStatuses": [ended(1, name="debugger")]}
    inits = {"initContainerStatuses": [ended(1, name="proxy")]}
    status = {"phase": "Running", "containerStatuses": [RUNS], **ephemeral, **inits}
    assert pod_facts(pod(status), 3).end is None


FINISHED = "2026-03-02T12:00:00Z"
LATER = "2026-03-02T12:00:09Z"


@pytest.mark.parametrize(
    ("sidecar", "moment"),
    [
        pytest.param({"terminated": {"finishedAt": LATER}}, LATER, id="it ends last"),
        pytest.param({"running": {}}, None, id="it still runs"),
        pytest.param({"waiting": {}}, FINISHED, id="it was never started"),
    ],
)
def test_a_pod_has_ended_with_its_last_container_sidecars_among_its_inits_included(
    sidecar: Any, moment: str | None
) -> None:
    once = {"terminated": {"exitCode": 0, "finishedAt": "2026-03-02T13:00:00Z"}}
    status = {
        "containerStatuses": [
            {"name": "trainer", "state": {"terminated": {"finishedAt": FINISHED}}}
        ],
        "initContainerStatuses": [
            {"name": "proxy", "state": sidecar},
            {"name": "fetch", "state": once},
        ],
    }
    inits = ({"name": "proxy", "restartPolicy": "Always"}, {"name": "fetch"})
    spec = {"containers": [{"name": "trainer"}], "initContainers": inits}
    seen = msgspec.structs.replace(pod(status), spec=msgspec.convert(spec, PodSpec))
    expected = datetime.fromisoformat(moment) if moment else None
    assert pod_facts(seen, 3).ended_at == expected


@pytest.mark.parametrize(("status", "end"), ENDS)
def test_ends(status: dict[str, Any], end: PodEnd | None) -> None:
    assert pod_facts(pod(status), 3).end == end


@pytest.mark.parametrize(
    ("status", "reason"), [("True", "PreemptionByScheduler"), ("False", None), ("Unknown", None)]
)
def test_a_disruption_is_one_while_its_condition_is_true(status: str, reason: str | None) -> None:
    condition = {**DISRUPTED, "status": status, "reason": "PreemptionByScheduler"}
    assert pod_facts(pod({"conditions": [condition]}), 3).disrupted == reason


WANTED = "registry/train:1"
CAUSE = "rpc error: code = NotFound desc = not found"


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("", "", ""),
        ("ContainerCreating", "", ""),
        ("PodInitializing", "", ""),
        ("ErrImagePull", CAUSE, f"image {WANTED} cannot be pulled: {CAUSE}"),
        (
            "ImagePullBackOff",
            f'Back-off pulling image "{WANTED}": ErrImagePull: {CAUSE}',
            f"image {WANTED} cannot be pulled: {CAUSE}",
        ),
        (
            "ImagePullBackOff",
            f'Back-off pulling image "{WANTED}"',
            f"image {WANTED} cannot be pulled",
        ),
        (
            "CreateContainerConfigError",
            'secret "s"\n not found',
            'CreateContainerConfigError: secret "s" not found',
        ),
        ("InvalidImageName", "", "InvalidImageName"),
        ("CreateContainerError", "x" * 999, f"CreateContainerError: {'x' * 278}"),
    ],
)
@pytest.mark.parametrize("where", ["containerStatuses", "initContainerStatuses"])
def test_why_a_container_cannot_be_started(
    where: str, reason: str, message: str, expected: str
) -> None:
    state = {"waiting": {"reason": reason, "message": message}}
    waiting = {"name": "trainer", "image": WANTED, "state": state}
    assert pod_facts(pod({"phase": "Pending", where: [waiting]}), 3).stuck == expected


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("False", "Unschedulable", "0/3 nodes are available"),
        ("False", "SchedulingGated", ""),
        ("True", "", ""),
    ],
)
def test_the_schedulers_words(status: str, reason: str, expected: str) -> None:
    message = "0/3 nodes are available"
    condition = {"type": "PodScheduled", "status": status, "reason": reason, "message": message}
    assert pod_facts(pod({"conditions": [condition]}), 3).unschedulable == expected


def test_a_pod_is_a_worker_by_label_owner_and_name() -> None:
    assert worker_id_in(pod(), "job", UID, 4) == 3
    owner = {"apiVersion": "v1", "kind": "T", "name": "job", "uid": UID}
    for stranger in (
        pod(labels={}),
        pod(labels={LABEL_JOB_UID: "another"}),
        pod(ownerReferences=[]),
        pod(ownerReferences=[owner]),  # an owner, but not the one that controls it
        pod(ownerReferences=[{**owner, "uid": "another", "controller": True}]),
        pod(name="job-3"),
    ):
        assert worker_id_in(stranger, "job", UID, 4) is None


def test_a_pod_whose_number_was_never_given_out_is_no_worker() -> None:
    assert worker_id_in(pod(), "job", UID, 3) is None


def test_what_a_pod_says_is_one_line_that_does_no_harm() -> None:
    message = "\x1b[2J" + "no\nyes\u2028" * 1_000
    reported = pod_facts(pod({"phase": "Failed", "message": message}), 3).end
    assert reported is not None
    assert len(reported.pod_message) <= MESSAGE_CHARACTERS
    assert reported.pod_message.isprintable()


def test_where_a_pod_was_asked_from_is_read_as_it_was_written() -> None:
    written = {
        "spotrun.dev/pools": "a,b",
        "spotrun.dev/zone": "z",
        "spotrun.dev/avoids": "n1,n2",
        "spotrun.dev/injected": "operator:1",
    }
    asked = pod_facts(pod(annotations=written), 3)
    assert asked.injected == "operator:1"
    assert (asked.pools, asked.zone, asked.avoids) == (("a", "b"), "z", ("n1", "n2"))
    anywhere = pod_facts(pod(), 3)
    assert (anywhere.pools, anywhere.zone, anywhere.avoids) == ((), "", ())
    assert anywhere.injected == "", "so are pods of operators that brought nothing"


@pytest.mark.parametrize(
    ("label", "slot"),
    [(None, 0), ("0", 0), ("1", 1), ("1023", 1023), ("-1", 0), ("x", 0), ("9" * 40, 0)],
)
def test_the_part_of_the_model_is_a_small_number(label: str | None, slot: int) -> None:
    labels: dict[str, str] = {LABEL_JOB_UID: UID, LABEL_WORKER_ID: "3", LABEL_TEMPLATE: "t1"}
    if label is not None:
        labels["spotrun.dev/slot"] = label
    assert pod_facts(pod(labels=labels), 3).slot == slot


@pytest.mark.parametrize(
    ("label", "replica"),
    [(None, None), ("0", 0), ("17", 17), ("", None), ("-1", None), ("1" * 11, None), ("x", None)],
)
def test_the_replica_is_named_by_a_worker_id(label: str | None, replica: int | None) -> None:
    labels = {} if label is None else {"spotrun.dev/replica": label}
    assert pod_facts(pod(labels=labels), 3).replica == replica


@pytest.mark.parametrize("node", ["", "n1"])
def test_the_scheduler_may_be_making_room_for_a_pod(node: str) -> None:
    assert pod_facts(pod({"nominatedNodeName": node}), 3).is_nominated is bool(node)
