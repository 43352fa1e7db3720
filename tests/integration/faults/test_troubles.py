"""The API server fails in all the ways it can while a worker is lost."""

from functools import partial

from devcluster.cluster import Cluster
from tests.integration.faults.conftest import Undisturbed, check
from tests.plans.run import run
from tests.plans.scenarios import SCENARIOS
from tests.plans.troubles import TROUBLES


async def test_trouble_with_the_api_server_changes_nothing_in_the_end(
    cluster: Cluster, undisturbed: Undisturbed, trouble: str
) -> None:
    expected = await undisturbed("worker_lost")
    outcome = await run(
        cluster,
        SCENARIOS["worker_lost"],
        trouble=lambda it: partial(TROUBLES[trouble], it),
        replicas=2 if trouble == "leader cut off" else 1,
    )
    check(outcome, expected)
