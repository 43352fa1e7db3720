"""The campaign of docs/campaign.md in small: nearly all kinds once, in scenarios by turns."""

from itertools import cycle
from pathlib import Path
from time import monotonic

from devcluster.cluster import Cluster
from tests.campaign.campaign import Campaign
from tests.campaign.journal import Journal, table
from tests.campaign.kinds.every import KINDS
from tests.campaign.plan import Fault, Plan
from tests.campaign.scenarios import SCENARIOS

_PER_PLAN = 3
"""Faults that one plan has: kinds are tried once, not each by itself."""


async def test_every_kind_of_fault_is_survived(
    cluster: Cluster, crds: None, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    campaign = Campaign(cluster, journal)
    writes = await campaign.prepare(list(SCENARIOS))
    kinds = [name for name, kind in KINDS.items() if kind.is_in_ci]
    others = [name for name in kinds if not KINDS[name].ends_job]
    groups = [others[n : n + _PER_PLAN] for n in range(0, len(others), _PER_PLAN)]
    groups += [[name] for name in kinds if KINDS[name].ends_job]
    plans = [
        Plan(scenario, tuple(Fault(kind, 2 + 2 * n, n) for n, kind in enumerate(group)))
        for group, scenario in zip(groups, cycle(writes), strict=False)
    ]
    await campaign.run_all(iter(plans), until=monotonic() + 600, most=len(plans))
    lines = journal.lines()
    assert [line for line in lines if not line["ok"]] == []
    assert set(table(lines)) == set(kinds)


async def test_an_operator_in_a_namespace_of_its_own_comes_to_the_same_end(
    cluster: Cluster, crds: None, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    campaign = Campaign(cluster, journal)
    (writes,) = (await campaign.prepare(["create"])).values()
    never = Plan("create", (Fault("namespace_terminating", 100 * writes),))
    await campaign.run_all(iter([never]), until=monotonic() + 60, most=1)
    (line,) = journal.lines()
    assert (line["complaints"], line["struck"]) == ({}, 0)
