"""The guard stands in the way of nobody who does not change what it guards."""

import json
from collections.abc import Callable

import pytest

from devcluster.cluster import Cluster
from tests.integration.manifests.conftest import ALWAYS, WHOLE, Guard
from tests.integration.manifests.guard_cases import AUTHOR, KEEPER_OF_ONE, STRANGER, csi, trainer
from tests.integration.manifests.helpers import (
    OPERATOR,
    Server,
    apply,
    grant,
    namespace,
    rule,
    until,
)
from tests.support.api.manifest_cases import CONTAINERS, Manifest, changed, job

OLD_BAD = trainer(securityContext={"privileged": True})

Kubectl = Callable[..., str]
Make = Callable[..., str]


@pytest.fixture
def kubectl(cluster: Cluster) -> Kubectl:
    def run(user: str, *arguments: str) -> str:
        return cluster.kubectl("-n", WHOLE, f"--as={user}", *arguments).stdout

    return run


@pytest.fixture
def make(cluster: Cluster, guard: Guard, request: pytest.FixtureRequest) -> Make:
    """Make a job named after the test; as admin, who may do everything."""

    def create(manifest: Manifest, place: str = WHOLE) -> str:
        name = request.node.originalname.removeprefix("test_").replace("_", "-")[:50].strip("-")
        body = json.dumps(changed(manifest, {"/metadata.name": name}))
        cluster.kubectl("-n", place, "create", "-f", "-", input=body)
        return str(name)

    return create


def unguarded(cluster: Cluster, guarded: bool = False) -> None:
    """Make WHOLE a namespace in which the guard stands, or does not."""
    apply(cluster, namespace(WHOLE, guard=WHOLE if guarded else "none"))


@pytest.fixture
def old_bad_job(cluster: Cluster, server: Server, make: Make) -> str:
    """A job that is older than the guard, which would refuse it."""

    def refused() -> bool:
        return not server.try_to_create(AUTHOR, WHOLE, OLD_BAD).accepted

    unguarded(cluster)
    try:
        until(lambda: not refused(), "the guard to be gone")
        return make(OLD_BAD)
    finally:
        unguarded(cluster, guarded=True)
        until(refused, "the guard to be back")


def test_others_label_and_put_finalizers(kubectl: Kubectl, old_bad_job: str) -> None:
    on = f"trainingjob/{old_bad_job}"
    kubectl(STRANGER, "label", on, "team=vision")
    for finalizers in (["example.com/hold"], []):
        patch = json.dumps({"metadata": {"finalizers": finalizers}})
        kubectl(STRANGER, "patch", on, "--type=merge", "-p", patch)


def test_the_condition_is_what_lets_them(server: Server, make: Make) -> None:
    name = make(job(), ALWAYS)
    labels: Manifest = {"metadata": {"labels": {"team": "vision"}}}
    assert not server.try_to_change(STRANGER, ALWAYS, name, labels).accepted


def test_foreground_deletion_ends(cluster: Cluster, kubectl: Kubectl, old_bad_job: str) -> None:
    uid = kubectl(AUTHOR, "get", "trainingjob", old_bad_job, "-o", "jsonpath={.metadata.uid}")
    owner = {
        "apiVersion": "spotrun.dev/v1alpha1",
        "kind": "TrainingJob",
        "name": old_bad_job,
        "uid": uid,
        "blockOwnerDeletion": True,
    }
    metadata = {"name": old_bad_job, "namespace": WHOLE, "ownerReferences": [owner]}
    apply(cluster, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    how = ("--cascade=foreground", "--wait", "--timeout=90s")  # it looks for new CRDs every 30 s
    kubectl(AUTHOR, "delete", "trainingjob", old_bad_job, *how)

    gone = ("get", "configmap", old_bad_job, "--ignore-not-found", "-o", "name")
    assert cluster.kubectl("-n", WHOLE, *gone).stdout == ""


def test_scaling_needs_only_the_right_to_scale(
    cluster: Cluster, kubectl: Kubectl, make: Make
) -> None:
    jobs = rule("spotrun.dev", "trainingjobs", "get")
    apply(cluster, *grant("scaler", jobs, rule("spotrun.dev", "trainingjobs/scale", "get patch")))
    on = f"trainingjob/{make(job({'workers.max': 8}))}"
    kubectl("scaler", "scale", on, "--replicas=4")
    assert kubectl("scaler", "get", on, "-o", "jsonpath={.spec.workers.replicas}") == "4"


def test_suspending_needs_no_right_to_make_pods(kubectl: Kubectl, old_bad_job: str) -> None:
    on = f"trainingjob/{old_bad_job}"
    for suspend in (True, False):
        patch = json.dumps({"spec": {"suspend": suspend}})
        kubectl(STRANGER, "patch", on, "--type=merge", "-p", patch)


@pytest.mark.usefixtures("rbac")
def test_the_operator_writes_status_and_annotations(server: Server, old_bad_job: str) -> None:
    annotations = {"metadata": {"annotations": {"spotrun.dev/cost-usd": "1.50"}}}
    answer = server.try_to_change(OPERATOR, WHOLE, old_bad_job, annotations)
    assert answer.accepted, answer.message
    status = {"status": {"phase": "Pending"}}
    answer = server.try_to_change(OPERATOR, WHOLE, f"{old_bad_job}/status", status)
    assert answer.accepted, answer.message


@pytest.mark.usefixtures("rbac")
def test_the_operator_deletes_what_is_finished(kubectl: Kubectl, make: Make) -> None:
    kubectl(OPERATOR, "delete", "trainingjob", make(job()))


TEMPLATE_CHANGES: dict[str, Manifest] = {
    "the image": job({f"{CONTAINERS}.0.image": "your-registry/train:2"}),
    "a label of the pods": job({"workers.template.metadata": {"labels": {"team": "vision"}}}),
    "the volume for checkpoints": job({"checkpoint.volume.csi.driver": "other.example.com"}),
}


@pytest.mark.parametrize("change", TEMPLATE_CHANGES.values(), ids=TEMPLATE_CHANGES.keys())
def test_a_change_of_the_template_or_checkpoint_is_guarded(
    server: Server, guard: Guard, suspended: str, change: Manifest
) -> None:
    assert server.try_to_change(AUTHOR, WHOLE, suspended, change).accepted
    answer = server.try_to_change(STRANGER, WHOLE, suspended, change)
    assert not answer.accepted
    assert "you may not create pods" in answer.message


@pytest.fixture(scope="module")
def suspended(cluster: Cluster, guard: Guard) -> str:
    """A job whose template may be changed; read-only for tests, which only try."""
    body = job(
        {
            "/metadata.name": "suspended",
            "suspend": True,
            f"{CONTAINERS}.0.securityContext": {"readOnlyRootFilesystem": True},
            "checkpoint.volume.csi": {"driver": "d.example.com"},
        }
    )
    cluster.kubectl("-n", WHOLE, "create", "-f", "-", input=json.dumps(body))
    return "suspended"


def test_a_field_that_takes_the_place_of_another_is_a_change(
    server: Server, suspended: str
) -> None:
    """CRDs compare fields that they do not declare by value only; the guard must not."""
    change = trainer(securityContext={"privileged": True})
    answer = server.try_to_change(AUTHOR, WHOLE, suspended, change)
    assert not answer.accepted
    assert "privileged containers" in answer.message


def test_a_secret_that_comes_later_is_guarded(server: Server, suspended: str) -> None:
    (volume,) = csi("storage")
    change = {"spec": {"checkpoint": {"volume": {"csi": volume["csi"]}}}}
    assert server.try_to_change(KEEPER_OF_ONE, WHOLE, suspended, change).accepted
    answer = server.try_to_change(AUTHOR, WHOLE, suspended, change)
    assert not answer.accepted
    assert "you may not read the secret" in answer.message


def test_a_bad_template_may_be_kept_but_not_changed_into_another(
    server: Server, old_bad_job: str
) -> None:
    kept = {"spec": {"suspend": True}}
    worse = changed(OLD_BAD, {"suspend": True, f"{CONTAINERS}.0.image": "i"})
    assert server.try_to_change(AUTHOR, WHOLE, old_bad_job, kept).accepted
    assert not server.try_to_change(AUTHOR, WHOLE, old_bad_job, worse).accepted
