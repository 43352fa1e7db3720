"""The affinity of a worker to the others of its replica."""

from typing import Any

import pytest

from spotrun.act.manifests.replica_affinity import with_replica
from spotrun.api.spec.placement import ONE_ZONE, ReplicaTopology
from spotrun.state.actions import Create, Near, Placed

ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
RACK = ReplicaTopology.model_validate({"required": "example.com/rack"})
TERM = {
    "labelSelector": {"matchLabels": {"spotrun.dev/job-uid": "uid", "spotrun.dev/replica": "4"}},
}
GIVEN = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": ["theirs"]}]}}}


def near(key: str, *, is_required: bool) -> Create:
    return Create(5, (), Placed(near=Near(key, "v", is_required=is_required)), 1, 4)


def test_a_worker_that_holds_a_whole_copy_has_no_mates() -> None:
    assert with_replica(GIVEN, Create(4), "uid", ONE_ZONE) is GIVEN


def test_pods_of_a_new_replica_ask_for_each_other() -> None:
    wish = {"weight": 100, "podAffinityTerm": {**TERM, "topologyKey": ZONE}}
    worker = Create(4, replica=4)
    assert with_replica(GIVEN, worker, "uid", ONE_ZONE) == {
        **GIVEN,
        "podAffinity": {PREFERRED: [wish]},
    }
    term = {**TERM, "topologyKey": "example.com/rack"}
    given = {"podAffinity": {REQUIRED: ["theirs"]}}
    assert with_replica(given, worker, "uid", RACK) == {"podAffinity": {REQUIRED: ["theirs", term]}}


def test_a_replacement_prefers_the_nodes_of_its_mates() -> None:
    expression = {"key": ZONE, "operator": "In", "values": ["v"]}
    wish = {"weight": 100, "preference": {"matchExpressions": [expression]}}
    made = with_replica(GIVEN, near(ZONE, is_required=False), "uid", ONE_ZONE)
    assert made == {"nodeAffinity": {**GIVEN["nodeAffinity"], PREFERRED: [wish]}}


@pytest.mark.parametrize(
    ("given", "terms"),
    [
        ({}, [[]]),
        (GIVEN, [["theirs"]]),
        (
            {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
                {"matchExpressions": ["a"]}, {"matchExpressions": ["b"]}
            ]}}},
            [["a"], ["b"]],
        ),
    ],
    ids=["nothing given", "one term", "alternatives"],
)  # fmt: skip
def test_or_must_be_there(given: dict[str, Any], terms: list[list[str]]) -> None:
    ours = {"key": "example.com/rack", "operator": "In", "values": ["v"]}
    made = with_replica(given, near("example.com/rack", is_required=True), "uid", RACK)
    found = made["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert found == [{"matchExpressions": [*theirs, ours]} for theirs in terms]
    assert "podAffinity" not in made
