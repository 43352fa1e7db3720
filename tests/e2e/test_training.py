"""A job on real kubelets, in a namespace that enforces restricted, from apply to its last words."""

import asyncio
import json

from devcluster.client import Manifest, at
from tests.e2e.site import PATIENCE_SECONDS, Site


def last_words(pod: Manifest | None) -> str:
    """What the kubelet read from a worker's termination log; empty while it runs."""
    for container in (pod or {}).get("status", {}).get("containerStatuses", []):
        if ended := container["state"].get("terminated"):
            return str(ended["message"])
    return ""


async def until_its_end(site: Site, worker: Manifest) -> Manifest:
    """Wait until a worker has ended; returns its last words."""
    pods, name = at("pods", site.namespace), worker["metadata"]["name"]
    pod = await site.kube.until(
        pods, name, lambda pod: bool(last_words(pod)), timeout_seconds=PATIENCE_SECONDS
    )
    words: Manifest = json.loads(last_words(pod))
    return words


async def test_a_job_trains_to_its_end(site: Site) -> None:
    await site.train(steps=200, workers=2)

    await site.until(lambda s: (s.get("workers") or {}).get("summary") == "2/2")
    workers = await site.workers()
    assert len({pod["spec"]["nodeName"] for pod in workers}) == 2

    async with asyncio.TaskGroup() as group:
        ends = [group.create_task(until_its_end(site, worker)) for worker in workers]
        ended = await site.until_end()
    assert (ended["phase"], ended["reason"]) == ("Succeeded", "Completed")
    assert (ended["progress"]["step"], ended["checkpoint"]["step"]) == (200, 200)
    assert [end.result()["reason"] for end in ends] == ["completed", "completed"]
