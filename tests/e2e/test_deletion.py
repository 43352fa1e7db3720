"""kubectl delete, in whatever phase a job is: nothing of it is left."""

from functools import partial
from typing import Any

import pytest

from devcluster.client import Manifest
from tests.e2e.jobs import TOGETHER
from tests.e2e.site import FOR_EVER, PAUSE_SECONDS, Site

FOR_LONG = ("--steps", FOR_EVER, "--pause", PAUSE_SECONDS)
OWNED = "pods,poddisruptionbudgets,networkpolicies"
NOWHERE = {"nodeSelector": {"example.com/nowhere": "true"}}
UNKNOWN = {"envFrom": [{"configMapRef": {"name": "nowhere"}}]}


async def start_all(site: Site) -> None:
    """Jobs of one worker, each on its way into another phase."""
    one: dict[str, Any] = {"workers": 1, "sizes": {"max": 1}}
    alone = {**one, "pod": TOGETHER}
    await site.start("plain_loop.py", *FOR_LONG, name="pending", **one, pod=TOGETHER | NOWHERE)
    await site.start("plain_loop.py", *FOR_LONG, name="starting", **alone, container=UNKNOWN)
    await site.start("plain_loop.py", *FOR_LONG, name="running", **alone)
    await site.start("plain_loop.py", *FOR_LONG, name="suspended", **alone, suspend=True)
    await site.start("plain_loop.py", "--steps", 1, name="succeeded", **alone)
    never = {"maxRestarts": 0}
    await site.start("plain_loop.py", "--nonsense", name="failed", **alone, failures=never)


def is_in(phase: str, status: Manifest) -> bool:
    return bool(status["phase"] == phase)


@pytest.mark.short
async def test_nothing_is_left_of_a_deleted_job_in_whatever_phase_it_is(site: Site) -> None:
    before = await site.kubectl("get", OWNED, "--output=name")
    await start_all(site)
    phases = ("Pending", "Starting", "Running", "Suspended", "Succeeded", "Failed")
    for phase in phases:
        name = phase.lower()
        await site.until(partial(is_in, phase), name)

        await site.kubectl("delete", "trainingjob", name, "--timeout=180s")

        mine = f"--selector=spotrun.dev/job={name}"
        await site.kubectl("wait", "--for=delete", OWNED, mine, "--timeout=180s")
    assert await site.kubectl("get", OWNED, "--output=name") == before
