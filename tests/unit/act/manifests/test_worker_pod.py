"""Worker pods, as whole objects."""

import json
from dataclasses import replace
from typing import Any

import pytest

from spotrun.act.manifests.worker_pod import SHARED_MEMORY, worker_pod
from spotrun.act.manifests.worker_settings import Settings
from spotrun.api.capacitypool import Capacity
from spotrun.observe.nodes.cloud_labels import CAPACITY_LABELS
from spotrun.state.actions import Create, Placed
from spotrun.state.snapshot import JobSnapshot
from tests.support.jobs.builders import a_job

SETTINGS = Settings(server="sync.spotrun-system:9443", ca_pem="PEM")
TRAINER = {"name": "trainer", "image": "your-registry/train:1"}

SPOT_VALUES = {
    "karpenter.sh/capacity-type": ["spot"],
    "eks.amazonaws.com/capacityType": ["SPOT"],
    "cloud.google.com/gke-spot": ["true"],
    "cloud.google.com/gke-provisioning": ["spot", "preemptible"],
    "cloud.google.com/gke-preemptible": ["true"],
    "kubernetes.azure.com/scalesetpriority": ["spot"],
    "kops.k8s.io/instancegroup": ["spotinstance-nodes"],
}
SPOT_TERMS = [
    {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
    for key, values in SPOT_VALUES.items()
]
UNHEALTHY = [
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]
SPOT_TOLERATIONS = [
    {"key": key, "operator": "Exists", "effect": "NoSchedule"}
    for key in (
        "cloud.google.com/gke-spot",
        "cloud.google.com/gke-preemptible",
        "kubernetes.azure.com/scalesetpriority",
    )
]

# The smallest job's worker 3.
SMALLEST = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "job-pu7fk-3",
        "namespace": "ns",
        "labels": {
            "spotrun.dev/job": "job",
            "spotrun.dev/job-uid": "job-uid",
            "app.kubernetes.io/managed-by": "spotrun",
            "spotrun.dev/worker-id": "3",
            "spotrun.dev/template": "t1",
        },
        "annotations": {
            "karpenter.sh/do-not-disrupt": "true",
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            "controller.kubernetes.io/pod-deletion-cost": "2147483647",
            "spotrun.dev/trainer": "trainer",
            "spotrun.dev/injected": "",
        },
        "ownerReferences": [
            {
                "apiVersion": "spotrun.dev/v1alpha1",
                "kind": "TrainingJob",
                "name": "job",
                "uid": "job-uid",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "finalizers": ["spotrun.dev/metered"],
    },
    "spec": {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 120,
        "automountServiceAccountToken": False,
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 100, "preference": term} for term in SPOT_TERMS
                ]
            }
        },
        "tolerations": [*SPOT_TOLERATIONS, *UNHEALTHY],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "trainer",
                "image": "your-registry/train:1",
                "command": [
                    "torchrun",
                    "--rdzv-backend=spotrun",
                    "--rdzv-id=job-uid",
                    "--rdzv-endpoint=sync.spotrun-system:9443",
                    "--nnodes=1:1",
                    "--nproc-per-node=1",
                    "--max-restarts=1000000",
                    "--monitor-interval=0.1",
                ],
                "env": [
                    {
                        "name": "POD_IP",
                        "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
                    },
                    {"name": "SPOTRUN_DIR", "value": "/run/spotrun"},
                    {"name": "SPOTRUN_NAMESPACE", "value": "ns"},
                    {"name": "SPOTRUN_JOB", "value": "job"},
                    {"name": "SPOTRUN_JOB_UID", "value": "job-uid"},
                    {"name": "SPOTRUN_WORKER", "value": "job-pu7fk-3"},
                    {"name": "SPOTRUN_SERVER", "value": "sync.spotrun-system:9443"},
                    {"name": "SPOTRUN_CA", "value": "PEM"},
                    {
                        "name": "SPOTRUN_TOKEN_FILE",
                        "value": "/var/run/secrets/spotrun.dev/token",
                    },
                    {"name": "SPOTRUN_TERMINATION_LOG", "value": "/dev/termination-log"},
                    {"name": "SPOTRUN_GRACE_SECONDS", "value": "110"},
                    {"name": "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "value": "110"},
                ],
                "volumeMounts": [
                    {"name": "spotrun-shm", "mountPath": SHARED_MEMORY},
                    {"name": "spotrun-dir", "mountPath": "/run/spotrun"},
                    {
                        "name": "spotrun-token",
                        "mountPath": "/var/run/secrets/spotrun.dev",
                        "readOnly": True,
                    },
                ],
                "securityContext": {"allowPrivilegeEscalation": False},
            }
        ],
        "volumes": [
            {"name": "spotrun-shm", "emptyDir": {"medium": "Memory"}},
            {"name": "spotrun-dir", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            {
                "name": "spotrun-token",
                "projected": {
                    "sources": [
                        {
                            "serviceAccountToken": {
                                "path": "token",
                                "audience": "spotrun.dev",
                                "expirationSeconds": 3600,
                            }
                        }
                    ]
                },
            },
        ],
    },
}


def test_workers_run_a_process_for_each_device_that_they_claim_and_remember_how_many() -> None:
    pod = pod_of(replace(a_job_of(), claimed=4))
    assert "--nproc-per-node=4" in pod["spec"]["containers"][0]["command"]
    assert pod["metadata"]["annotations"]["spotrun.dev/devices"] == "4"


def a_job_of(
    pod_spec: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    workers: dict[str, Any] | None = None,
    **spec: Any,
) -> JobSnapshot:
    job = a_job()
    template = {
        "spec": {"containers": [TRAINER], **(pod_spec or {})},
        **({"metadata": metadata} if metadata else {}),
    }
    given = {**job.spec.workers.manifest(), **(workers or {}), "template": template}
    content = {**job.spec.manifest(), "workers": given, **spec}
    read = type(job.spec).model_validate_json(json.dumps(content))
    return JobSnapshot(**{**job.snapshot().__dict__, "spec": read})


def pod_of(job: JobSnapshot, settings: Settings = SETTINGS, **create: Any) -> Any:
    return worker_pod(job, Create(3, **create), settings)


def spec_of(pod_spec: dict[str, Any] | None = None, **job: Any) -> Any:
    return pod_of(a_job_of(pod_spec, **job))["spec"]


def trainer_of(container: dict[str, Any], **job: Any) -> Any:
    return spec_of({"containers": [{**TRAINER, **container}]}, **job)["containers"][0]


def test_the_worker_of_the_smallest_job() -> None:
    assert pod_of(a_job_of()) == SMALLEST


def test_manifests_are_plain_json() -> None:
    # msgspec, which encodes them, knows no subclasses of str.
    def check(value: object) -> None:
        assert type(value) in {dict, list, str, int, bool}, repr(value)
        for inner in value.values() if isinstance(value, dict) else ():
            check(inner)
        for inner in value if isinstance(value, list) else ():
            check(inner)
        for key in value if isinstance(value, dict) else ():
            assert type(key) is str

    check(pod_of(a_job_of({"priorityClassName": "high"}, metadata={"labels": {"a": "b"}})))


def test_the_labels_of_spot_are_those_that_nodes_are_classified_by() -> None:
    assert {label for label, _ in CAPACITY_LABELS} == set(SPOT_VALUES)


def test_the_users_template_is_kept_and_not_changed() -> None:
    given: dict[str, Any] = {
        "containers": [
            {**TRAINER, "args": ["train.py", "--lr=3e-4"], "workingDir": "/src"},
            {"name": "log", "image": "log:1", "command": ["log"]},
        ],
        "initContainers": [{"name": "fetch", "image": "fetch:1"}],
        "priorityClassName": "high",
        "nodeSelector": {"gpu": "a100"},
        "volumes": [{"name": "data", "emptyDir": {}}],
        "terminationGracePeriodSeconds": 600,
        "automountServiceAccountToken": True,
        "schedulerName": None,
    }
    job = a_job_of(given, metadata={"labels": {"team": "a"}, "annotations": {"note": "b"}})
    before = job.spec.model_dump_json()

    pod = pod_of(job)

    assert job.spec.model_dump_json() == before
    assert pod["metadata"]["labels"]["team"] == "a"
    assert pod["metadata"]["annotations"]["note"] == "b"
    spec = pod["spec"]
    assert spec["containers"][0]["args"] == ["train.py", "--lr=3e-4"]
    assert spec["containers"][0]["workingDir"] == "/src"
    assert spec["containers"][0]["command"][0] == "torchrun"
    assert spec["containers"][1] == {
        **given["containers"][1],
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    assert spec["initContainers"][0]["securityContext"] == {"allowPrivilegeEscalation": False}
    assert spec["volumes"][0] == {"name": "data", "emptyDir": {}}
    for kept in ("priorityClassName", "nodeSelector", "terminationGracePeriodSeconds"):
        assert spec[kept] == given[kept]
    assert spec["automountServiceAccountToken"] is True


def test_the_trainer_of_several_containers_is_called_so() -> None:
    spec = spec_of({"containers": [{"name": "log", "image": "log:1"}, TRAINER]})
    assert [("command" in c, "env" in c) for c in spec["containers"]] == [
        (False, False),
        (True, True),
    ]


def test_labels_of_ours_and_a_shorter_grace_are_not_the_users_to_give() -> None:
    job = a_job_of(
        {"terminationGracePeriodSeconds": 5},
        metadata={"labels": {"app.kubernetes.io/managed-by": "me"}},
    )
    pod = pod_of(job)
    assert pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "spotrun"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 120


def test_a_user_may_tell_autoscalers_otherwise() -> None:
    note = {"karpenter.sh/do-not-disrupt": "30m"}
    given = pod_of(a_job_of(metadata={"annotations": note}))["metadata"]["annotations"]
    assert given["karpenter.sh/do-not-disrupt"] == "30m"
    assert given["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"


def test_processes_are_the_gpus_unless_said_otherwise() -> None:
    gpus = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    assert "--nproc-per-node=8" in trainer_of(gpus)["command"]
    assert "--nproc-per-node=2" in trainer_of(gpus, workers={"processes": 2})["command"]
    sizes = {"min": 2, "max": 6}
    assert "--nnodes=2:6" in trainer_of({}, workers=sizes)["command"]


def test_our_variables_come_first_and_cannot_be_replaced() -> None:
    own = {"name": "LOGS", "value": "$(SPOTRUN_DIR)/logs"}
    env = trainer_of({"env": [own, {"name": "SPOTRUN_SERVER", "value": "elsewhere"}]})["env"]
    assert env[-1] == own
    assert [one["value"] for one in env if one["name"] == "SPOTRUN_SERVER"] == [SETTINGS.server]


def test_what_annotations_say_of_the_script_is_passed_on() -> None:
    said = {
        "spotrun.dev/count-steps": "false",
        "spotrun.dev/total-steps": "2000",
        "spotrun.dev/notice-signal": "SIGUSR1",
    }
    pod = pod_of(replace(a_job_of(), script=said))
    env = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
    assert env["SPOTRUN_COUNT_STEPS"] == "0"
    assert env["SPOTRUN_TOTAL_STEPS"] == "2000"
    assert env["SPOTRUN_NOTICE_SIGNAL"] == "SIGUSR1"


def test_a_users_own_shared_memory_is_kept() -> None:
    mount = {"name": "mine", "mountPath": f"{SHARED_MEMORY}/"}
    job = {
        "containers": [{**TRAINER, "volumeMounts": [mount]}],
        "volumes": [{"name": "mine", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
    }
    spec = spec_of(job)
    names = [one["name"] for one in spec["containers"][0]["volumeMounts"]]
    assert names == ["mine", "spotrun-dir", "spotrun-token"]
    assert [one["name"] for one in spec["volumes"]] == names


VOLUMES: list[dict[str, Any]] = [
    {"persistentVolumeClaim": {"claimName": "checkpoints"}},
    {"nfs": {"server": "nfs.example.com", "path": "/exports"}},
    {"csi": {"driver": "efs.csi.aws.com", "volumeAttributes": {"id": "fs-1"}}},
    {"emptyDir": {"sizeLimit": "20Gi"}},
    {"emptyDir": {}},
]


@pytest.mark.parametrize("volume", VOLUMES, ids=lambda volume: next(iter(volume)))
def test_the_volume_for_checkpoints_is_mounted(volume: dict[str, Any]) -> None:
    spec = spec_of(checkpoint={"volume": volume})
    assert spec["volumes"][-1] == {"name": "spotrun-checkpoints", **volume}
    trainer = spec["containers"][0]
    assert trainer["volumeMounts"][-1] == {
        "name": "spotrun-checkpoints",
        "mountPath": "/checkpoints",
    }
    assert {"name": "SPOTRUN_CHECKPOINT", "value": "/checkpoints/ns/job"} in trainer["env"]
    assert {"name": "SPOTRUN_CHECKPOINT_EVERY", "value": "auto"} in trainer["env"]
    assert {"name": "SPOTRUN_CHECKPOINT_KEEP", "value": "3"} in trainer["env"]


def test_a_claim_that_the_template_names_too_is_one_volume_of_the_pod() -> None:
    own = {"name": "work", "persistentVolumeClaim": {"claimName": "checkpoints"}}
    mount = {"name": "work", "mountPath": "/work"}
    job = {"containers": [{**TRAINER, "volumeMounts": [mount]}], "volumes": [own]}
    spec = spec_of(job, checkpoint={"volume": VOLUMES[0]})
    assert [one for one in spec["volumes"] if "persistentVolumeClaim" in one] == [own]
    mounts = spec["containers"][0]["volumeMounts"]
    assert mounts[0] == mount
    assert mounts[-1] == {"name": "work", "mountPath": "/checkpoints"}


def test_a_claim_that_the_template_only_reads_is_mounted_once_more_to_be_written() -> None:
    claim = {"claimName": "checkpoints", "readOnly": True}
    job = {
        "containers": [TRAINER],
        "volumes": [{"name": "seen", "persistentVolumeClaim": claim}],
    }
    spec = spec_of(job, checkpoint={"volume": VOLUMES[0]})
    assert spec["volumes"][-1] == {"name": "spotrun-checkpoints", **VOLUMES[0]}


def test_jobs_on_one_claim_have_a_folder_each() -> None:
    job = a_job_of(checkpoint={"volume": VOLUMES[0]})
    others = [replace(job, name="other"), replace(job, namespace="elsewhere")]
    places = {
        one["value"]
        for each in (job, *others)
        for one in pod_of(each)["spec"]["containers"][0]["env"]
        if one["name"] == "SPOTRUN_CHECKPOINT"
    }
    assert places == {"/checkpoints/ns/job", "/checkpoints/ns/other", "/checkpoints/elsewhere/job"}


@pytest.mark.parametrize(
    ("wanted", "folder"),
    [("job.1a2b3c4d", "job.1a2b3c4d"), ("../other", "job"), ("a/b", "job"), ("", "job")],
)
def test_a_trial_has_a_folder_of_its_search_which_leads_nowhere_else(
    wanted: str, folder: str
) -> None:
    job = a_job_of(checkpoint={"volume": VOLUMES[0]})
    job = replace(job, script={"spotrun.dev/checkpoint-folder": wanted})
    env = pod_of(job)["spec"]["containers"][0]["env"]
    assert {"name": "SPOTRUN_CHECKPOINT", "value": f"/checkpoints/ns/{folder}"} in env


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"job": "base"}, "/checkpoints/ns/base"),
        ({"job": "base", "checkpoint": "step-300.g1"}, "/checkpoints/ns/base/step-300.g1"),
    ],
)
def test_a_job_may_begin_from_the_checkpoint_of_another(
    other: dict[str, str], expected: str
) -> None:
    place = {"volume": VOLUMES[0], "beginFrom": other}
    env = spec_of(checkpoint=place)["containers"][0]["env"]
    assert {"name": "SPOTRUN_CHECKPOINT_FROM", "value": expected} in env
    assert {"name": "SPOTRUN_CHECKPOINT", "value": "/checkpoints/ns/job"} in env


def test_how_often_to_save_is_handed_on_in_seconds() -> None:
    place = {"volume": {"emptyDir": {}}, "every": "1h30m", "keep": 5}
    env = spec_of(checkpoint=place)["containers"][0]["env"]
    assert {"name": "SPOTRUN_CHECKPOINT_EVERY", "value": "5400s"} in env
    assert {"name": "SPOTRUN_CHECKPOINT_KEEP", "value": "5"} in env


@pytest.mark.parametrize("uri", ["s3://bucket/prefix", "s3://bucket/prefix/", "gs://bucket"])
def test_in_an_object_store_each_job_has_a_place_of_its_own(uri: str) -> None:
    template = {"containers": [{**TRAINER, "envFrom": [{"secretRef": {"name": "s3"}}]}]}
    spec = spec_of(template, checkpoint={"uri": uri})
    assert len(spec["volumes"]) == 3
    trainer = spec["containers"][0]
    found = [one["value"] for one in trainer["env"] if one["name"] == "SPOTRUN_CHECKPOINT"]
    assert found == [f"{uri.rstrip('/')}/ns/job"]
    assert trainer["envFrom"] == [{"secretRef": {"name": "s3"}}], "credentials are not ours"


def test_last_words_go_where_the_template_wants_them_and_have_time() -> None:
    spec = spec_of(
        {
            "containers": [{**TRAINER, "terminationMessagePath": "/dev/words"}],
            "terminationGracePeriodSeconds": 600,
        }
    )
    env = spec["containers"][0]["env"]
    assert {"name": "SPOTRUN_TERMINATION_LOG", "value": "/dev/words"} in env
    assert {"name": "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "value": "590"} in env


def test_nodes_to_avoid_are_ruled_out_by_name() -> None:
    pod = pod_of(a_job_of(), avoid_nodes=("n1", "n2"))
    assert pod["metadata"]["annotations"]["spotrun.dev/avoids"] == "n1,n2"
    required = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert required == {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1", "n2"]}
                ]
            }
        ]
    }


def test_a_restricted_namespace_gets_what_it_wants() -> None:
    strict = Settings(server="s", ca_pem="c", restricted=True)
    given = {
        "containers": [
            {**TRAINER, "securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"]}}}
        ]
    }
    spec = pod_of(a_job_of(given), strict)["spec"]
    assert spec["securityContext"] == {
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsNonRoot": True,
    }
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
    }


@pytest.mark.parametrize(
    ("of_pod", "of_container", "pod_profile", "container_profile"),
    [
        ({}, {}, "RuntimeDefault", None),
        ({"type": "Unconfined"}, {"type": "Unconfined"}, "RuntimeDefault", "RuntimeDefault"),
        (
            {"type": "Localhost", "localhostProfile": "a"},
            {"type": "Localhost", "localhostProfile": "b"},
            "Localhost",
            "Localhost",
        ),
    ],
)
def test_system_calls_are_always_filtered(
    of_pod: dict[str, str],
    of_container: dict[str, str],
    pod_profile: str,
    container_profile: str | None,
) -> None:
    def context(profile: dict[str, str]) -> dict[str, Any]:
        return {"securityContext": {"seccompProfile": profile}} if profile else {}

    spec = spec_of({**context(of_pod), "containers": [{**TRAINER, **context(of_container)}]})
    assert spec["securityContext"]["seccompProfile"]["type"] == pod_profile
    inner = spec["containers"][0]["securityContext"]
    assert inner.get("seccompProfile", {}).get("type") == container_profile


def test_what_a_user_says_about_privileges_is_not_asked() -> None:
    more = {"allowPrivilegeEscalation": True, "runAsUser": 1000}
    assert trainer_of({"securityContext": more})["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "runAsUser": 1000,
    }
    pod = spec_of({"securityContext": {"runAsNonRoot": False, "fsGroup": 5}})["securityContext"]
    assert (pod["runAsNonRoot"], pod["fsGroup"]) == (False, 5)


def test_a_worker_says_from_which_pools_it_was_asked() -> None:
    place = Placed(("a", "b"), (("a", 100), ("b", 50)), capacity=Capacity.SPOT, zone="z")
    meta = pod_of(a_job_of(), place=place)["metadata"]
    assert meta["labels"]["spotrun.dev/capacity"] == "Spot"
    assert meta["annotations"]["spotrun.dev/pools"] == "a,b"
    assert meta["annotations"]["spotrun.dev/zone"] == "z"


def test_where_workers_share_a_model_each_has_the_number_of_its_part() -> None:
    alone = pod_of(a_job_of())["metadata"]["labels"]
    assert "spotrun.dev/slot" not in alone
    job = a_job_of(workers={"min": 2, "max": 4, "perReplica": 2})
    assert pod_of(job, slot=1)["metadata"]["labels"]["spotrun.dev/slot"] == "1"


def test_a_lent_worker_has_the_class_of_what_is_lent() -> None:
    lend = {"priorityClassName": "low"}
    template = {"spec": {"containers": [TRAINER], "priorityClassName": "normal"}}
    job = a_job(2, template=template, placement={"lend": lend}).snapshot()
    kept = worker_pod(job, Create(0), SETTINGS)
    lent = worker_pod(job, Create(1, lent=True), SETTINGS)
    assert kept["spec"]["priorityClassName"] == "normal"
    assert "spotrun.dev/lent" not in kept["metadata"]["labels"]
    assert lent["spec"]["priorityClassName"] == "low"
    assert lent["metadata"]["labels"]["spotrun.dev/lent"] == "true"
