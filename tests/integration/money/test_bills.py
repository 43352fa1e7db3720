"""Bills say what jobs have cost when the jobs are gone, and whatever operator wrote them: once."""

from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from devcluster.client import Manifest, at
from spotrun.cli.cluster.installation import NAMESPACE_VARIABLE
from spotrun.policies.cost.billing.codec import DATA_KEY, bill_name, read
from spotrun.policies.cost.billing.lines import JobLine, Standing
from spotrun.policies.cost.billing.months import month_of
from tests.faults.proxy import FaultProxy
from tests.faults.rules import Rule
from tests.integration.money.helpers import CENT, add_node, all_settled, let_time_pass, workers
from tests.meter.meter import Meter
from tests.plans.replica import deployed
from tests.support.cluster.operator_world import World
from tests.support.processes.plugin import typed

RATE = Fraction(9, 3600)
"""USD per second of a quarter of a node of $36 an hour."""


@pytest.fixture
async def priced(world: World) -> World:
    await add_node(world, "a", "36")
    created = await world.create_job(workers=workers(1))
    team = {"metadata": {"labels": {"team": "vision"}}}
    await world.kube.patch(world.jobs(created["metadata"]["name"]), team)
    return world


async def test_a_job_that_was_deleted_while_it_ran_is_in_the_bill(
    priced: World, meter: Meter
) -> None:
    async with priced.operator():
        await priced.until_phase("Running")
        await until_line(priced, lambda line: line.standing is Standing.OPEN)
        await let_time_pass()
        await priced.kube.delete(priced.jobs("job"))
        line = await until_line(priced, lambda line: line.standing is Standing.GONE)
        await priced.until_no_pods()
    assert line.labels == {"team": "vision"}
    assert {part.category for part in line.charged} <= {"compute", "lostWork", "idle"}
    metered = meter.usd("job", line.as_of)
    assert metered > CENT
    assert abs(spent(line) - metered) < CENT


async def test_a_finished_job_is_billed_what_its_status_says_and_stays_when_it_is_deleted(
    priced: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAMESPACE_VARIABLE, priced.namespace)
    async with priced.operator():
        await priced.until_phase("Running")
        await let_time_pass()
        priced.play().may_finish.set()
        job = await priced.until_job(all_settled)
        line = await until_line(priced, lambda line: line.standing is Standing.ENDED)
        assert spent(line) == Fraction(job["status"]["cost"]["usd"])
        printed = await typed(
            priced.cluster, "bill", "--by", "team", "--format", "csv", "-n", priced.namespace
        )
        assert (printed.code, printed.out.splitlines()[1].split(",")[0]) == (0, "vision")
        await priced.kube.delete(priced.jobs("job"))
        await priced.kube.create(priced.jobs(), _successor(job))
        both = await priced.until(lambda: _two_lines(priced))
    assert both[line.uid].charged == line.charged


@pytest.mark.parametrize("fault", ["crash_before", "crash_after"])
@pytest.mark.parametrize("verb", ["create", "patch"])
async def test_an_operator_killed_at_a_write_of_a_bill_is_followed_by_one_that_charges_once(
    priced: World, fault: Any, verb: str
) -> None:
    admin = priced.cluster.admin
    async with FaultProxy(admin.server, admin.ssl_context()) as proxy:
        rule = proxy.inject(Rule(fault, verb=verb, path="/configmaps"))
        async with deployed(priced, proxy.url) as [deployment]:
            proxy.on_crash = deployment.kill
            await priced.until_phase("Running")
            if verb == "patch":
                await until_line(priced, lambda _: True)
            priced.play().may_finish.set()
            job = await priced.until_job(all_settled)
            line = await until_line(priced, lambda line: line.standing is Standing.ENDED)
            assert (rule.fired, deployment.num_kills) == (1, 1)
    assert spent(line) == Fraction(job["status"]["cost"]["usd"])


async def test_a_job_deleted_while_no_operator_runs_is_charged_until_then(
    priced: World, meter: Meter
) -> None:
    async with priced.operator():
        await priced.until_phase("Running")
        before = await until_line(priced, lambda line: bool(line.usd_per_hour))
    await let_time_pass()
    await priced.kube.delete(priced.jobs("job"))
    [pod] = await priced.until(lambda: _ended_pods(priced))
    async with priced.operator():
        line = await until_line(priced, lambda line: line.standing is Standing.GONE)
        await priced.until_no_pods()
    # Kubernetes writes whole seconds.
    assert abs(line.as_of - deleted_at(pod)) <= timedelta(seconds=1)
    assert line.as_of > before.as_of
    assert abs(spent(line) - spent(before) - RATE * seconds(before, line)) < CENT / 50
    assert abs(spent(line) - meter.usd("job", line.as_of)) < CENT


async def until_line(world: World, holds: Any) -> JobLine:
    """Wait for the line of the only job in the bill."""

    async def look() -> JobLine | None:
        found = (await lines(world)).values()
        return next((line for line in found if holds(line)), None)

    found: JobLine = await world.until(look)
    return found


async def lines(world: World) -> dict[str, JobLine]:
    name = bill_name(world.namespace, month_of(datetime.now().astimezone()))
    found = await world.kube.list(at("configmaps", world.namespace))
    stored = [one for one in found if one["metadata"]["name"] == name]
    return dict(read(stored[0]["data"][DATA_KEY]).jobs) if stored else {}


async def _two_lines(world: World) -> dict[str, JobLine] | None:
    found = await lines(world)
    return found if len(found) == 2 else None


async def _ended_pods(world: World) -> list[Manifest]:
    """Return pods that are deleted and have ended: their time of deletion is written again then."""
    pods = await world.pods()
    return [pod for pod in pods if pod["metadata"].get("deletionGracePeriodSeconds") == 0]


def _successor(job: Manifest) -> Manifest:
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "metadata": {"name": job["metadata"]["name"]},
        "spec": job["spec"],
    }


def deleted_at(pod: Manifest) -> datetime:
    grace = timedelta(seconds=pod["metadata"]["deletionGracePeriodSeconds"])
    return datetime.fromisoformat(pod["metadata"]["deletionTimestamp"]) - grace


def seconds(before: JobLine, after: JobLine) -> Fraction:
    return Fraction((after.as_of - before.as_of) // timedelta(microseconds=1), 10**6)


def spent(line: JobLine) -> Fraction:
    """What the job is charged for its workers, in USD; what was idle beside them is not in it."""
    of_workers = ("compute", "lostWork")
    units = [units for part, units in line.charged.items() if part.category in of_workers]
    return Fraction(sum(units), 10_000)
