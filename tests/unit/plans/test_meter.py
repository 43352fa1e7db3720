"""The meter takes in what a watch can tell of a pod."""

from datetime import UTC, datetime, timedelta
from typing import Any

from devcluster.watching import WatchEvent, difference, remember
from tests.meter.meter import PRICE, Meter

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "a", "uid": "n", "resourceVersion": "1", "annotations": {PRICE: "3600"}},
    "status": {"allocatable": {"cpu": "1", "memory": "1Gi"}},
}


def pod_since(start: datetime) -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": start.isoformat()}
    meta = {"name": "job-0", "namespace": "t", "uid": "p", "resourceVersion": "2"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, "labels": {"spotrun.dev/job": "job"}},
        "spec": {"nodeName": "a", "containers": [{"name": "trainer"}]},
        "status": {"phase": "Running", "conditions": [scheduled]},
    }


async def test_a_deletion_that_a_list_found_ends_the_pod_that_was_known() -> None:
    meter, known = Meter(), dict[str, Any]()
    begun = datetime.now(UTC) - timedelta(seconds=10)
    added = WatchEvent("ADDED", pod_since(begun))
    remember(known, added)
    for event in (WatchEvent("ADDED", NODE), added, *difference(known, [])):
        await meter.note(event)
    ended = datetime.now(UTC)
    assert 10 <= meter.usd("job", ended + timedelta(hours=1)) <= (ended - begun).total_seconds()
    assert meter.unreported_ends("job") == 1
    await meter.has_seen_all_ends("job")
