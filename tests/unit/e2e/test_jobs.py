"""The jobs of the end-to-end tests, before a cluster sees them."""

import json

from devcluster.client import Manifest
from spotrun.api.trainingjob import TrainingJobSpec
from tests.e2e import jobs
from tests.support.storage import s3_pod

SPOT = {"capacity": "Spot"}


def read(job: Manifest) -> TrainingJobSpec:
    return TrainingJobSpec.model_validate_json(json.dumps(job["spec"]))


def container(job: Manifest) -> Manifest:
    (found,) = job["spec"]["workers"]["template"]["spec"]["containers"]
    return dict(found)


def test_the_example_is_what_users_apply_but_for_its_size() -> None:
    job = jobs.example("localhost/trainer:1", SPOT, steps=200, workers=2)

    assert container(job) == {
        "name": "trainer",
        "image": "localhost/trainer:1",
        "args": ["examples/tiny_lm.py", "--steps=200"],
        "env": [{"name": "OMP_NUM_THREADS", "value": "1"}],
        "resources": {"requests": {"cpu": "200m", "memory": "512Mi"}},
    }
    spec = read(job)
    assert (spec.workers.min, spec.workers.max, spec.workers.replicas) == (1, 4, 2)
    assert job["spec"]["checkpoint"] == jobs.on_claim()
    assert job["spec"]["placement"] == SPOT


def test_a_scripted_job_can_be_changed_at_every_level() -> None:
    job = jobs.scripted(
        "job",
        "localhost/trainer:1",
        SPOT,
        "plain_loop.py",
        *("--steps", 5),
        workers=2,
        sizes={"min": 2},
        pod={"hostNetwork": True},
        container={"image": "another"},
        failures={"maxRestarts": 1},
    )

    assert container(job)["args"] == ["/scripts/plain_loop.py", "--steps", "5"]
    assert container(job)["image"] == "another"
    assert job["spec"]["workers"]["template"]["spec"]["hostNetwork"] is True
    spec = read(job)
    assert (spec.workers.min, spec.workers.max, spec.workers.replicas) == (2, 2, 2)
    assert spec.failures.max_restarts == 1


def test_every_script_of_the_tests_is_there() -> None:
    furniture = jobs.furniture("team")

    (scripts,) = (one for one in furniture if one["kind"] == "ConfigMap")
    assert {"plain_loop.py", "run_loop.py", "snapshots.py"} <= set(scripts["data"])
    assert scripts["metadata"] == {"name": "scripts", "namespace": "team"}


def test_a_job_goes_anywhere_where_nothing_is_known_of_nodes() -> None:
    made = (
        jobs.example("localhost/trainer:1", {}, steps=200, workers=2),
        jobs.scripted("job", "localhost/trainer:1", {}, "plain_loop.py", workers=1),
    )

    assert [(job["spec"].get("placement"), job["spec"]["scaling"]) for job in made] == [
        (None, {"mode": "Manual"})
    ] * 2


def test_each_worker_has_a_folder_of_its_own_beside_the_shared_one() -> None:
    job = jobs.scripted("job", "localhost/trainer:1", SPOT, "run_loop.py", workers=2)

    _, shared, own = container(job)["volumeMounts"]
    assert shared == {"name": "work", "mountPath": "/work"}
    assert own == {"name": "work", "mountPath": "/own", "subPathExpr": "$(POD)"}
    assert container(job)["env"][-1] == {
        "name": "POD",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
    }
    read(job)


def test_a_bare_pod_is_let_into_a_restricted_namespace() -> None:
    pod = jobs.bare_pod(
        *("reader", "team", "localhost/trainer:1", "sleep", "infinity"),
        volumes={"/work": {"persistentVolumeClaim": {"claimName": "checkpoints"}}},
    )

    (only,) = pod["spec"]["containers"]
    assert only["command"] == ["sleep", "infinity"]
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert only["volumeMounts"] == [{"name": "volume-0", "mountPath": "/work", "readOnly": True}]
    assert pod["spec"]["volumes"] == [
        {"name": "volume-0", "persistentVolumeClaim": {"claimName": "checkpoints"}}
    ]


def test_the_store_of_the_cluster_keeps_its_keys_in_a_secret_that_jobs_name() -> None:
    claim = {"persistentVolumeClaim": {"claimName": jobs.CLAIM}}
    secret, service, pod = s3_pod.s3_server("localhost/trainer:1", claim, folder="program")
    checkpoint, found = s3_pod.saves_there()
    job = jobs.scripted(
        "job", "none", SPOT, "run_loop.py", workers=1, checkpoint=checkpoint, container=found
    )

    assert read(job).checkpoint is not None
    assert container(job)["envFrom"] == [{"secretRef": {"name": secret["metadata"]["name"]}}]
    assert not [v for v in secret["stringData"].values() if v in json.dumps([job, pod, service])]
    assert pod["metadata"]["labels"] == service["spec"]["selector"]
    bare = jobs.bare_pod("reader", "team", "none", volumes={})["spec"]
    (only,), (asked,) = pod["spec"]["containers"], bare["containers"]
    assert only["securityContext"] == asked["securityContext"], "restricted namespaces take it"
    assert bare["securityContext"].items() <= pod["spec"]["securityContext"].items()
