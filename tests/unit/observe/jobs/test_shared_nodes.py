"""What workers of other jobs have of a job's nodes."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from spotrun.money.shares import Resources
from spotrun.observe.jobs.shared_nodes import shared_nodes, with_claimed_devices
from spotrun.observe.kube_objects import PodObject
from spotrun.policies.cost.meter import shares_of
from spotrun.state.snapshot import Node
from tests.support.jobs.builders import a_job


def a_pod(owner: str, phase: str = "Running", devices: str = "", held: bool = True) -> PodObject:
    owners: list[dict[str, Any]] = [{"uid": owner, "controller": True}]
    meta = {
        "name": "p",
        "resourceVersion": "1",
        "ownerReferences": owners,
        "annotations": {"spotrun.dev/devices": devices},
        "finalizers": ["spotrun.dev/metered"] if held else [],
    }
    return msgspec.convert({"metadata": meta, "status": {"phase": phase}}, PodObject)


def test_a_node_is_shared_while_a_worker_of_another_job_is_there() -> None:
    job = a_job(3).training(0, 1, 2).with_worker(3, node=None).snapshot()
    on_nodes = {
        "node-0": [a_pod("job-uid"), a_pod("job-uid")],
        "node-1": [a_pod("job-uid"), a_pod("another")],
        "node-2": [a_pod("job-uid"), a_pod("another", "Succeeded")],
        "elsewhere": [a_pod("another")],
    }
    assert shared_nodes(job, on_nodes.__getitem__) == {"node-1"}


CLAIMS_TWO = Resources(Decimal(1), claimed=2)


@pytest.mark.parametrize(
    ("gpus", "others", "share"),
    [
        pytest.param(0, [], "1", id="alone on a node that counts none"),
        pytest.param(0, [a_pod("another", devices="6")], "0.25", id="beside another job"),
        pytest.param(0, [a_pod("another")], "1", id="beside one that claims none"),
        pytest.param(0, [a_pod("another", devices="6", held=False)], "1", id="that is settled"),
        pytest.param(4, [a_pod("another", devices="6")], "0.5", id="on a node that counts GPUs"),
    ],
)
def test_who_claims_devices_of_one_node_pays_for_it_together(
    gpus: int, others: list[PodObject], share: str
) -> None:
    node = Node("n", allocatable=Resources(Decimal(64), gpus=gpus))
    job = a_job(1).with_worker(0, node=node, requests=CLAIMS_TWO).snapshot()
    seen = with_claimed_devices(job, lambda _: [a_pod("job-uid", devices="2"), *others], _is_worker)
    assert shares_of(seen.workers) == (Decimal(share),)


@pytest.mark.parametrize(
    ("noted", "template", "others", "share"),
    [
        pytest.param(2, "present", [a_pod("nobody", devices="9999")], "1", id="no worker's number"),
        pytest.param(6, "present", [a_pod("another", devices="9999")], "0.0857", id="too many"),
        pytest.param(2, "present", [a_pod("another", devices="6")], "0.5", id="too few of its own"),
        pytest.param(0, "present", [a_pod("another", devices="6")], "0.5", id="none of its own"),
        pytest.param(2, "former", [a_pod("another", devices="6")], "0.25", id="as it was made"),
    ],
)
def test_a_number_that_somebody_wrote_on_a_pod_moves_no_cost_to_others(
    noted: int, template: str, others: list[PodObject], share: str
) -> None:
    node = Node("n", allocatable=Resources(Decimal(64)))
    job = a_job(2).with_facts(claimed=6)
    template = job.snapshot().template if template == "present" else template
    asked = Resources(Decimal(1), claimed=noted)
    job = job.with_worker(0, node=node, requests=asked, template=template)
    own = a_pod("job-uid", devices=str(noted))
    seen = with_claimed_devices(job.snapshot(), lambda _: [own, *others], _is_worker)
    [found] = shares_of(seen.workers)
    assert round(found, 4) == Decimal(share)


def test_a_node_is_as_it_was_where_nobody_claims_devices() -> None:
    job = a_job(1).with_worker(0).snapshot()
    on_it = [a_pod("another", devices="6")]
    assert with_claimed_devices(job, lambda _: on_it, _is_worker) is job


def _is_worker(pod: PodObject) -> bool:
    return pod.metadata.owner_uid == "another"
