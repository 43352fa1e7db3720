"""`bill`, `breakeven` and `idle` as people type them when their jobs have run, and are gone."""

import json
import signal
from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from devcluster.client import at
from devcluster.cluster import Cluster
from spotrun.cli.cluster.exit_codes import DONE, NO_ANSWER, REFUSED
from spotrun.cli.cluster.installation import NAMESPACE_VARIABLE
from spotrun.policies.cost.billing.codec import bill_name
from spotrun.policies.cost.billing.lines import JobLine, Standing
from spotrun.policies.cost.billing.months import month_of
from tests.faults.proxy import FaultProxy
from tests.faults.rules import FOR_EVER, Rule
from tests.integration.attacks.helpers import WRITES_JOBS, make_tenant
from tests.integration.money.helpers import CENT, ROOM, all_settled, let_time_pass, workers
from tests.integration.money.test_bills import lines
from tests.integration.process.helpers import write_kubeconfig
from tests.support.cluster.operator_world import GROUP, World
from tests.support.processes.plugin import Typed, begun, ended, typed

USD_PER_HOUR = {"Spot": "36", "OnDemand": "108"}
INTERRUPTED = 130
VERBS: Mapping[str, tuple[str, ...]] = {
    "bill": ("bill", "-A"),
    "breakeven": ("breakeven", "-A", "--hours-per-month", "100"),
    "idle": ("idle",),
}


@pytest.fixture
async def billed(world: World, monkeypatch: pytest.MonkeyPatch) -> dict[str, JobLine]:
    """Two jobs that have run in two pools; one was deleted when it was over, one while it ran."""
    monkeypatch.setenv(NAMESPACE_VARIABLE, world.namespace)
    for capacity, price in USD_PER_HOUR.items():
        labels = {"kind": capacity.lower(), "team": world.namespace}
        await world.nodes.add(capacity.lower(), capacity=ROOM, labels=labels)
        spec = {"capacity": capacity, "usdPerHour": price, "nodeSelector": labels}
        pool = {"apiVersion": GROUP, "kind": "CapacityPool", "spec": spec}
        name = {"metadata": {"name": f"{capacity.lower()}-{world.namespace}"}}
        await world.kube.create(at("capacitypools", group=GROUP), {**pool, **name})
    async with world.operator():
        for capacity in USD_PER_HOUR:
            wanted = workers(1)
            wanted["template"]["spec"]["nodeSelector"] = {"kind": capacity.lower()}
            placement = {"placement": {"capacity": capacity}}
            await world.create_job(capacity.lower(), workers=wanted, **placement)
        for capacity in USD_PER_HOUR:
            await world.until_phase("Running", capacity.lower())
        await let_time_pass()
        world.play("spot").may_finish.set()
        await world.until_job(all_settled, "spot")
        for capacity in USD_PER_HOUR:
            await world.kube.delete(world.jobs(capacity.lower()))
            await world.until_no_pods(capacity.lower())

        async def are_over() -> dict[str, JobLine] | None:
            found = await lines(world)
            open_ones = [one for one in found.values() if one.standing is Standing.OPEN]
            return found if len(found) == 2 and not open_ones else None

        found: dict[str, JobLine] = await world.until(are_over)
    return found


async def test_the_verbs_say_what_the_bills_say_when_the_jobs_are_gone(
    world: World, billed: dict[str, JobLine], tmp_path: Path
) -> None:
    month = month_of(datetime.now().astimezone())
    as_admin = world.cluster.kubeconfig
    whole = sum(sum(line.charged.values()) for line in billed.values())

    found = await data_of(as_admin, "bill", "-n", world.namespace, "--format", "json")
    assert {row["job"].partition("/")[2] for row in found} == {"spot", "ondemand"}
    assert abs(sum(Fraction(row["usd"]) for row in found) - Fraction(whole, 10_000)) <= CENT / 2

    compared = await data_of(
        as_admin, "breakeven", "-n", world.namespace, "--month", month, "-o", "json",
        "--like", f"spot-{world.namespace}",
    )  # fmt: skip
    hours = sum(useful_hours(line) for line in billed.values())
    assert compared["hoursPerMonth"] == f"{float(hours):.2f}"
    prices = {one["name"]: Fraction(one["usdPerHour"]) for one in compared["offers"]}
    assert (prices["spot"], prices["on demand"]) == (Fraction(36), Fraction(108))

    unused = await data_of(as_admin, "idle", "--minutes", "0", "-o", "json")
    ours = {one["node"]: one for one in unused if one["pool"].endswith(world.namespace)}
    assert {name: one["usdPerHour"] for name, one in ours.items()} == {
        "spot": "36",
        "ondemand": "108",
    }

    tenant = a_tenant(world, tmp_path)
    for words in VERBS.values():
        assert_refused(await typed(tenant, *words))
    own = await data_of(tenant, "bill", "-n", world.namespace, "--format", "json")
    assert own == found


def a_tenant(world: World, folder: Path) -> Path:
    """Return access for somebody who has jobs and may read the bill of their namespace."""
    bill = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [bill_name(world.namespace, month_of(datetime.now().astimezone()))],
        "verbs": ["get"],
    }
    token = make_tenant(world.cluster, world.namespace, WRITES_JOBS, bill).token
    return write_kubeconfig(world.cluster, token, folder / "tenant")


def assert_refused(answer: Typed) -> None:
    """Check that a verb says in sentences what right it lacks, and whom to ask."""
    assert (answer.code, answer.out) == (REFUSED, "")
    assert "not allowed: " in answer.err
    assert "sk an admin of the cluster" in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_is_interrupted_or_loses_its_api_server_and_says_so(
    cluster: Cluster, crds: None, tmp_path: Path, verb: str
) -> None:
    admin = cluster.admin
    async with FaultProxy(admin.server, admin.ssl_context()) as proxy:
        kubeconfig = write_kubeconfig(cluster, "none", tmp_path / "faulty", proxy.url)
        held = proxy.inject(Rule("hold", verb="list", times=FOR_EVER))
        waits = await begun(kubeconfig, *VERBS[verb])
        await held.struck.wait()
        waits.send_signal(signal.SIGINT)
        answer = await ended(waits)
        assert (answer.code, answer.out) == (INTERRUPTED, "")
        assert "interrupted before its end" in answer.err
        held.gate.set()
        proxy.heal(held)

        proxy.inject(Rule("lose_answer", verb="list", times=FOR_EVER))
        answer = await typed(kubeconfig, *VERBS[verb])
        assert (answer.code, answer.out) == (NO_ANSWER, "")
        assert "the cluster does not answer" in answer.err


async def data_of(kubeconfig: Path, *words: str) -> Any:
    """Return what a verb prints for programs."""
    answer = await typed(kubeconfig, *words)
    assert answer.code == DONE, answer.err
    return json.loads(answer.out)


def useful_hours(line: JobLine) -> Fraction:
    """Return the node-hours that the bill of a job has paid, lost work left out."""
    of_nodes = {part: units for part, units in line.charged.items() if part.pool}
    idle = sum(units for part, units in line.charged.items() if part.category == "idle")
    paid = sum(of_nodes.values())
    useful = sum(units for part, units in of_nodes.items() if part.category != "lostWork")
    (capacity,) = {part.capacity for part in of_nodes}
    price = Fraction(USD_PER_HOUR[capacity])
    return Fraction(useful * (paid + idle), paid * 10_000) / price
