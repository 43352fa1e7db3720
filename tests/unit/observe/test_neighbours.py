"""Which nodes of a job have workers of other jobs as well."""

from typing import Any

import msgspec

from spotrun.observe.neighbours import shared_nodes
from spotrun.observe.objects import PodObject
from tests.decide_builders import a_job


def a_pod(owner: str, phase: str = "Running") -> PodObject:
    owners: list[dict[str, Any]] = [{"uid": owner, "controller": True}]
    meta = {"name": "p", "resourceVersion": "1", "ownerReferences": owners}
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
