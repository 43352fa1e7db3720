"""How many devices a worker claims, and how often that is asked for."""

from dataclasses import replace
from typing import Any

import pytest

from spotrun.api.names import Phase, SuspendedBy
from spotrun.kube.errors import Forbidden, KubeError, NotFound, Retryable
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.observe.jobs.device_claims import (
    CLAIMS,
    DOUBTED_SECONDS,
    KEPT_SECONDS,
    NO_DEVICE_CLAIMS,
    TEMPLATES,
    DeviceClaim,
    DeviceClaims,
    DeviceCounts,
    Devices,
    device_claims_of,
)
from spotrun.state.job_state import JobState
from tests.support.jobs.builders import a_spec
from tests.unit.kube.scripted import ScriptedTransport

GPU = "gpu.nvidia.com"
ONE_EACH = DeviceClaim(TEMPLATES, Key("ns", "gpus"))
THE_ONE = DeviceClaim(CLAIMS, Key("ns", "gpus"))
MISSING = NotFound(
    "resourceclaimtemplates.resource.k8s.io not found", status=404, reason="NotFound"
)
NOT_SERVED = NotFound("404 page not found", status=404)


def exactly(name: str = "gpu", of: str = GPU, **said: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": of, **said}}


def first_of(*counts: int) -> dict[str, Any]:
    found = [{"name": f"n{n}", "deviceClassName": f"c{n}", "count": n} for n in counts]
    return {"name": "gpu", "firstAvailable": found}


class Bench:
    """An API server with claims for devices."""

    def __init__(self, *requests: dict[str, Any]) -> None:
        self.now = 0.0
        self.asked = 0
        self.requests = list(requests)
        self.error: KubeError | None = None
        client = Client(ScriptedTransport(self.answer), field_manager="test")
        self.counts = DeviceCounts(client, lambda: self.now)

    def answer(self, method: str, path: str, _: Any) -> Any:
        assert method == "GET"
        self.asked += 1
        if self.error is not None:
            raise self.error
        spec = {"devices": {"requests": self.requests}}
        in_template = "resourceclaimtemplates" in path
        return {"spec": {"spec": spec} if in_template else spec}

    async def look(self, *claims: DeviceClaim, **said: Any) -> Devices:
        return await self.counts.look(DeviceClaims(claims or (ONE_EACH,), **said))


@pytest.mark.parametrize(
    ("requests", "count"),
    [
        ([exactly(count=4)], 4),
        ([exactly()], 1),
        ([exactly(allocationMode="ExactCount", count=8)], 8),
        ([exactly("a", count=2), exactly("b", count=2)], 4),
        ([exactly(count=4), exactly("watch", adminAccess=True, count=9)], 4),
        ([first_of(2)], 2),
        ([{"name": "gpu", "firstAvailable": [{"name": "a"}, {"name": "b"}]}], 1),
        ([], 0),
    ],
)
async def test_exact_numbers_are_counted(requests: list[dict[str, Any]], count: int) -> None:
    assert await Bench(*requests).look() == Devices(count)


@pytest.mark.parametrize(
    ("requests", "why"),
    [
        ([exactly(allocationMode="All")], "request gpu of ResourceClaimTemplate gpus asks for no"),
        ([first_of(2, 4)], "takes the first available of alternatives with different"),
        ([{"name": "gpu"}], "takes the first available of alternatives with different"),
        ([exactly(), exactly("nic", of="nic")], "of several classes (gpu.nvidia.com, nic)"),
    ],
)
async def test_what_is_no_exact_number_is_not_guessed(
    requests: list[dict[str, Any]], why: str
) -> None:
    bench = Bench(*requests)
    assert why in (await bench.look()).why_unknown
    assert await bench.look(processes=8) == Devices(8), "each process drives one"


async def test_a_container_may_be_given_one_request_of_a_claim() -> None:
    gpus = DeviceClaim(TEMPLATES, Key("ns", "gpus"), "gpu")
    assert await Bench(exactly(count=2), exactly("nic", of="nic")).look(gpus) == Devices(2)


async def test_several_claims_add_up() -> None:
    other = DeviceClaim(TEMPLATES, Key("ns", "more"))
    assert await Bench(exactly(count=2)).look(ONE_EACH, other) == Devices(4)


async def test_a_claim_for_all_workers_says_nothing_of_each() -> None:
    bench = Bench(exactly(count=2))
    assert await bench.look(THE_ONE) == Devices(2)
    assert "claim for all workers" in (await bench.look(THE_ONE, is_for_several=True)).why_unknown


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (MISSING, "ResourceClaimTemplate gpus does not exist"),
        (NOT_SERVED, "the API server does not serve resource.k8s.io/v1"),
        (Forbidden("not yours"), "ResourceClaimTemplate gpus cannot be read: not yours"),
        (Retryable("away"), "ResourceClaimTemplate gpus cannot be read: away"),
    ],
)
async def test_it_is_said_why_a_claim_is_not_read_and_asked_again_soon(
    error: KubeError, why: str
) -> None:
    bench, claims = Bench(exactly(count=4)), DeviceClaims((ONE_EACH,))
    bench.error = error
    assert why in (await bench.look()).why_unknown
    assert bench.counts.wake_after_seconds(claims) == DOUBTED_SECONDS
    assert bench.counts.wake_after_seconds(DeviceClaims((ONE_EACH,), 4)) == float("inf")
    bench.now, bench.error = DOUBTED_SECONDS - 1, None
    assert (await bench.look()).why_unknown
    bench.now = DOUBTED_SECONDS
    assert await bench.look() == Devices(4)
    assert bench.counts.wake_after_seconds(claims) == float("inf")


async def test_what_was_counted_is_kept_and_not_lost_with_the_api_server() -> None:
    bench = Bench(exactly(count=4))
    await bench.look(is_on_pods=True)
    bench.now = KEPT_SECONDS - 1
    await bench.look(is_on_pods=True)
    assert bench.asked == 1
    bench.now, bench.error = KEPT_SECONDS, Retryable("away")
    assert await bench.look(is_on_pods=True) == Devices(4)
    bench.now, bench.error = KEPT_SECONDS * 2, MISSING
    assert (await bench.look(is_on_pods=True)).why_unknown


async def test_before_workers_are_made_a_count_is_read_anew_for_claims_may_be_replaced() -> None:
    bench = Bench(exactly(count=4))
    await bench.look(is_on_pods=True)
    bench.now, bench.requests = DOUBTED_SECONDS - 1, [exactly(count=8)]
    assert await bench.look() == Devices(4)
    bench.now = DOUBTED_SECONDS
    assert await bench.look(is_on_pods=True) == Devices(4), "its workers were made with so many"
    assert await bench.look() == Devices(8)


@pytest.mark.parametrize(
    ("requests", "claims"),
    [
        pytest.param([exactly(allocationMode="All")], (ONE_EACH,), id="no exact number"),
        pytest.param([first_of(2, 4)], (ONE_EACH,), id="unequal numbers"),
        pytest.param([exactly(), exactly("nic", of="nic")], (ONE_EACH,), id="several classes"),
        pytest.param([exactly(count=4)], (ONE_EACH, THE_ONE), id="one for all workers"),
    ],
)
async def test_what_was_read_and_cannot_be_counted_is_asked_again_soon(
    requests: list[dict[str, Any]], claims: tuple[DeviceClaim, ...]
) -> None:
    bench, job = Bench(*requests), DeviceClaims(claims, is_for_several=True)
    assert (await bench.counts.look(job)).why_unknown
    bench.now = 4.0
    assert bench.counts.wake_after_seconds(job) == DOUBTED_SECONDS - 4
    assert bench.counts.wake_after_seconds(replace(job, processes=8)) == float("inf")
    assert bench.counts.wake_after_seconds(replace(job, is_on_pods=True)) == float("inf")
    bench.now, bench.requests = DOUBTED_SECONDS, [exactly(count=8)]
    alone = DeviceClaims((ONE_EACH,), is_for_several=True)
    assert await bench.counts.look(alone) == Devices(8)
    assert bench.counts.wake_after_seconds(alone) == float("inf")


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spotrun.observe.jobs.device_claims.MOST_CLAIMS", 3)
    bench = Bench(exactly())
    for number in (*range(5), 4, 0):
        await bench.look(DeviceClaim(TEMPLATES, Key("ns", f"c{number}")))
    assert bench.asked == 6


def a_template(*claims: dict[str, Any], limits: dict[str, Any] | None = None) -> dict[str, Any]:
    given = {"claims": [{"name": "a"}, {"name": "b", "request": "r"}], "limits": limits}
    trainer = {"name": "trainer", "image": "your-registry/train:1", "resources": given}
    log = {"name": "log", "image": "i", "resources": {"claims": [{"name": "c"}]}}
    return {"spec": {"containers": [log, trainer], "resourceClaims": list(claims)}}


A = {"name": "a", "resourceClaimTemplateName": "gpus"}
B = {"name": "b", "resourceClaimName": "b"}
C = {"name": "c", "resourceClaimTemplateName": "of-the-side-container"}
OF_A = DeviceClaims((ONE_EACH,), is_for_several=True)
BOTH = (ONE_EACH, DeviceClaim(CLAIMS, Key("ns", "b"), "r"))


@pytest.mark.parametrize(
    ("template", "status", "expected"),
    [
        (a_template(A, B, C), {}, DeviceClaims(BOTH, is_for_several=True)),
        (a_template(C, A), {}, OF_A),
        (a_template(), {}, DeviceClaims(is_for_several=True)),
        (a_template(A, limits={"nvidia.com/gpu": "2"}), {}, NO_DEVICE_CLAIMS),
        (a_template(A), {"phase": Phase.SUCCEEDED}, NO_DEVICE_CLAIMS),
        *((a_template(A), {"suspended_by": (by,)}, OF_A) for by in SuspendedBy),
    ],
    ids=[
        "both kinds",
        "not the side container's",
        "names nothing",
        "limits say it",
        "finished",
        *(f"may go on, held back by {by}" for by in SuspendedBy),
    ],
)
def test_the_claims_that_count_are_those_of_the_container_that_trains(
    template: dict[str, Any], status: dict[str, Any], expected: DeviceClaims
) -> None:
    found = device_claims_of(a_spec(2, template=template), JobState(**status), "ns")
    assert found == expected


def test_who_is_suspended_by_the_spec_claims_nothing() -> None:
    spec = a_spec(2, template=a_template(A), suspend=True)
    assert device_claims_of(spec, JobState(), "ns") == NO_DEVICE_CLAIMS
