"""A job on real kubelets, in a namespace that enforces restricted, from apply to its last words."""

import asyncio
import json
import re

import pytest

from devcluster.client import Manifest, at
from tests.e2e.site import EXAMPLE, Site

LOSS = re.compile(r"^step (\d+)  loss (\S+)", re.MULTILINE)


def last_words(pod: Manifest | None) -> str:
    """What the kubelet read from a worker's termination log; empty while it runs."""
    for container in (pod or {}).get("status", {}).get("containerStatuses", []):
        if ended := container["state"].get("terminated"):
            return str(ended["message"])
    return ""


async def until_its_end(site: Site, worker: Manifest) -> tuple[Manifest, str]:
    """Wait until a worker has ended; returns its last words and its log."""
    pods, name = at("pods", site.namespace), worker["metadata"]["name"]
    following = asyncio.create_task(site.kubectl("logs", name, "--follow"))
    pod = await site.kube.until(
        pods, name, lambda pod: bool(last_words(pod)), timeout_seconds=site.cluster.patience_seconds
    )
    words: Manifest = json.loads(last_words(pod))
    return words, await following


def cell(table: str, column: str) -> str:
    """What kubectl shows below a heading, in a table of one row."""
    headings, row = table.splitlines()
    return row[headings.index(column) :].split("  ")[0]


@pytest.mark.short
async def test_a_job_trains_to_its_end(site: Site) -> None:
    await site.start_example(steps=200, workers=2)

    await site.until(lambda s: (s.get("workers") or {}).get("summary") == "2/2", EXAMPLE)
    workers = await site.workers(EXAMPLE)
    assert len({pod["spec"]["nodeName"] for pod in workers}) == 2

    async with asyncio.TaskGroup() as group:
        ends = [group.create_task(until_its_end(site, worker)) for worker in workers]
        ended = await site.until_end(EXAMPLE)
    assert (ended["phase"], ended["reason"]) == ("Succeeded", "Completed")
    assert (ended["progress"]["step"], ended["checkpoint"]["step"]) == (200, 200)
    words, logs = zip(*(end.result() for end in ends), strict=True)
    assert [said["reason"] for said in words] == ["completed", "completed"]
    losses = [float(loss) for _, loss in LOSS.findall("".join(logs))]
    assert losses[-1] < losses[0] * 0.8

    table = await site.kubectl("get", "trainingjobs")
    shown = [cell(table, column) for column in ("NAME", "PHASE", "PROGRESS")]
    assert shown == [EXAMPLE, "Succeeded", "100%"]
    told = await site.kubectl("events", f"--for=trainingjob/{EXAMPLE}")
    assert "world 1: 2 workers" in told
    assert "Completed" in told
