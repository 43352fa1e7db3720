import pytest

from devcluster.cluster import Cluster
from tests.integration.faults.conftest import Undisturbed, check
from tests.plans.run import run
from tests.plans.scenarios import SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_two_undisturbed_runs_are_alike(
    cluster: Cluster, undisturbed: Undisturbed, scenario: str
) -> None:
    first = await undisturbed(scenario)
    check(first, first)
    check(await run(cluster, SCENARIOS[scenario]), first)
