"""What cannot go well says why, in the words of the script or of Kubernetes."""

from typing import Any

import pytest

from devcluster.client import Manifest
from tests.e2e import jobs
from tests.e2e.kind.machine import SetupError
from tests.e2e.site import Site

CRASH = ("--steps", 12, "--save-every", 5, "--crash-at", 7)


async def test_a_crash_is_answered_with_a_restart_and_then_told(site: Site) -> None:
    once = {"maxRestarts": 1}
    await site.start("snapshots.py", jobs.FOLDER, *CRASH, workers=1, failures=once)

    ended = await site.until_end()

    assert (ended["phase"], ended["reason"]) == ("Failed", "TooManyRestarts")
    assert "ended with exit code 1: ArithmeticError: loss is not finite" in ended["message"]
    assert [line["step"] for line in await site.trace()] == [1, 2, 3, 4, 5, 6, 7, 6, 7]


AS_ROOT = {"securityContext": {"runAsUser": 0}}


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        pytest.param(
            {"container": {"image": "localhost/nowhere:1"}},
            "CannotStart",
            "localhost/nowhere:1",
            id="no such image",
        ),
        pytest.param(
            {"pod": AS_ROOT}, "TemplateRefused", "violates PodSecurity", id="refused template"
        ),
        pytest.param(
            {"checkpoint": jobs.on_claim("nowhere")},
            "WaitingForCapacity",
            'persistentvolumeclaim "nowhere" not found',
            id="no such claim",
        ),
    ],
)
async def test_a_job_that_cannot_start_says_why(
    site: Site, changes: dict[str, Any], reason: str, words: str
) -> None:
    await site.start("plain_loop.py", workers=1, **changes)

    def is_told(status: Manifest) -> bool:
        return status.get("reason") == reason and words in status.get("message", "")

    await site.until(is_told)


async def test_what_would_hand_over_the_node_is_not_even_taken(site: Site) -> None:
    with pytest.raises(SetupError, match="hostNetwork is not allowed in a worker: leave it out"):
        await site.start("plain_loop.py", workers=1, pod={"hostNetwork": True})
