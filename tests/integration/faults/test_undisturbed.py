"""Without faults: runs are alike, and the plans are still about the writes that there are."""

import json

import pytest

from devcluster.cluster import Cluster
from tests.integration.faults.conftest import RECORDED, Undisturbed, check
from tests.plans.run import run
from tests.plans.scenarios import SCENARIOS


async def test_two_undisturbed_runs_are_alike(
    cluster: Cluster, undisturbed: Undisturbed, scenario: str
) -> None:
    first = await undisturbed(scenario)
    check(first, first)
    check(await run(cluster, SCENARIOS[scenario]), first)


async def test_the_recorded_writes_are_those_that_are_made(
    undisturbed: Undisturbed, request: pytest.FixtureRequest
) -> None:
    """If not: `pytest tests/integration/faults/test_undisturbed.py --record-plans`."""
    writes = {name: [str(w) for w in (await undisturbed(name)).writes] for name in SCENARIOS}
    if request.config.getoption("--record-plans"):
        RECORDED.write_text(json.dumps(writes, indent=1) + "\n")
    recorded = json.loads(RECORDED.read_text())
    assert {name: _kinds(writes[name]) for name in writes} == {
        name: _kinds(recorded[name]) for name in recorded
    }


def _kinds(writes: list[str]) -> list[str]:
    """How often the status is written, and people are told, may differ by what happens to meet."""
    firsts = {write.partition(" #")[0] for write in writes}
    return sorted(firsts)
