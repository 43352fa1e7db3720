from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from spotrun.api import load
from tests.integration.api.conftest import Server
from tests.integration.asking import ask
from tests.support.api.broken_rules import INVALID
from tests.support.api.manifest_cases import (
    CONTAINERS,
    FULL,
    TEMPLATE,
    VALID,
    Case,
    Manifest,
    changed,
    job,
)

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("manifest", VALID.values(), ids=VALID.keys())
def test_good_manifests_are_accepted(server: Server, manifest: Manifest) -> None:
    answer = server.try_to_create(manifest)
    assert answer.accepted, answer.message


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case.name)
def test_bad_manifests_are_refused_in_words(server: Server, case: Case) -> None:
    assert server.try_to_create(case.base).accepted
    answer = server.try_to_create(case.manifest)
    assert not answer.accepted
    assert case.server_message in answer.message


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_accepted(cluster: Cluster, crds: None, path: Path) -> None:
    cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(path))


def test_a_zone_that_nobody_knows_is_refused(server: Server) -> None:
    window = {"from": "20:00", "to": "06:00", "timeZone": "Europe/Atlantis"}
    schedule = {"schedule.windows": [window], "checkpoint.uri": "s3://bucket"}
    assert "Europe/Atlantis" in server.try_to_create(job(schedule)).message


def test_the_server_fills_in_the_defaults_that_the_models_have(server: Server) -> None:
    for manifest in VALID.values():
        stored = server.try_to_create(manifest).body
        given, filled = load(manifest), load(stored)
        assert filled.spec == given.spec
        assert filled.spec.manifest() == stored["spec"]


def test_a_minimal_job_is_stored_with_all_its_defaults(server: Server) -> None:
    assert server.try_to_create(job()).body["spec"] == {
        "suspend": False,
        "priority": 0,
        "workers": {
            **job()["spec"]["workers"],
            **dict.fromkeys(("min", "max", "replicas", "perReplica"), 1),
            "inject": "Auto",
        },
        "scaling": {
            "minEfficiency": "0.6",
            "scaleUpAfter": "2m",
            "scaleDownAfter": "10m",
        },
        "placement": {
            "capacity": "Mixed",
            "onDemandBase": 0,
            "homogeneous": "Accelerator",
            "zones": "Auto",
            "preempts": "Never",
            "fallbackAfter": "10m",
            "giveBackAfter": "20m",
        },
        "failures": {"maxRestarts": 3, "hangAfter": "Auto"},
    }


def test_the_pod_template_is_stored_as_it_was(server: Server) -> None:
    stored = server.try_to_create(FULL).body
    assert stored["spec"]["workers"]["template"] == FULL["spec"]["workers"]["template"]


def test_unknown_fields_are_pruned_where_nobody_asks_for_strictness(server: Server) -> None:
    misspelt = job({"bugdet": {}, f"{CONTAINERS}.0.env": []})
    path = "/apis/spotrun.dev/v1alpha1/namespaces/default/trainingjobs?dryRun=All"
    stored = ask(server.connection, "POST", path, misspelt).body
    assert "bugdet" not in stored["spec"]
    assert stored["spec"]["workers"]["template"]["spec"]["containers"][0]["env"] == []


CHECKPOINT = {"checkpoint": {"uri": "s3://bucket/a", "keep": 2}}
WHILE_SUSPENDED: dict[str, Manifest] = {
    "another image": {f"{CONTAINERS}.0.image": "your-registry/train:2"},
    "another variable": {f"{CONTAINERS}.0.env": [{"name": "A", "value": "2"}]},
    "a known field more": {f"{CONTAINERS}.0.args": ["train.py"]},
    "an unknown field more": {f"{TEMPLATE}.spec.nodeSelector": {"disk": "ssd"}},
    "a label more": {f"{TEMPLATE}.metadata": {"labels": {"a": "b"}}},
    "processes": {"workers.processes": 2},
    "perReplica": {"workers.perReplica": 2},
    "inject": {"workers.inject": "Never"},
    "another checkpoint place": {"checkpoint.uri": "s3://bucket/b"},
    "a checkpoint place of another kind": {
        "checkpoint": {"volume": {"nfs": {"server": "nfs", "path": "/a"}}}
    },
    "no checkpoint place": {"checkpoint": None},
}
AT_ONCE: dict[str, Manifest] = {
    "max": {"workers.max": 8},
    "replicas beyond max": {"workers.replicas": 9},
    "sizes": {"workers.sizes": [2, 4]},
    "a budget": {"budget.maxCostUsd": "1"},
    "a deadline": {"deadline.finishWithin": "1h"},
    "a schedule": {"schedule.windows": [{"from": "20:00", "to": "06:00"}]},
    "scaling": {"scaling.mode": "Manual"},
    "placement": {"placement.capacity": "Spot"},
    "suspension": {"suspend": True},
}


def _stored(server: Server, name: str) -> Manifest:
    start = {"workers.min": 2, "workers.max": 4, f"{CONTAINERS}.0.env": [{"name": "A"}]}
    named = {"/metadata.name": name}
    return server.create(job({**start, **CHECKPOINT, **named}))


@pytest.fixture
def stored(server: Server, request: pytest.FixtureRequest) -> Manifest:
    name = "".join(c if c.isalnum() else "-" for c in request.node.callspec.id.lower())
    return _stored(server, f"{request.node.originalname[5:20].replace('_', '-')}-{name}"[:50])


@pytest.mark.parametrize("change", WHILE_SUSPENDED.values(), ids=WHILE_SUSPENDED.keys())
def test_what_a_world_is_made_of_changes_only_while_suspended(
    server: Server, stored: Manifest, change: Manifest
) -> None:
    refused = server.replace(changed(stored, change))
    assert not refused.accepted
    assert "may change only while the job is suspended: set spec.suspend to true" in refused.message
    together = server.replace(changed(stored, {**change, "suspend": True}))
    assert together.accepted, together.message
    resumed = server.replace(changed(together.body, {"suspend": False}))
    assert resumed.accepted, resumed.message


def test_a_suspended_phase_is_as_good_as_the_users_wish(server: Server) -> None:
    running = _stored(server, "suspended-by-budget")
    suspended = server.replace(changed(running, {"phase": "Suspended"}, root="status"), "/status")
    assert suspended.accepted, suspended.message
    change = WHILE_SUSPENDED["another image"]
    assert server.replace(changed(suspended.body, change)).accepted


@pytest.mark.parametrize("change", AT_ONCE.values(), ids=AT_ONCE.keys())
def test_everything_else_changes_at_once(
    server: Server, stored: Manifest, change: Manifest
) -> None:
    answer = server.replace(changed(stored, change))
    assert answer.accepted, answer.message


def test_min_and_max_may_move_below_what_an_autoscaler_wrote(server: Server) -> None:
    grown = _stored(server, "grown")
    grown = server.replace(changed(grown, {"workers.replicas": 4})).body
    shrunk = server.replace(changed(grown, {"workers.min": 1, "workers.max": 2}))
    assert shrunk.accepted, shrunk.message
