"""One write of one scenario is disturbed, and in the end all is as if nothing had happened.

The operator is killed before or after the write, or the write or its answer gets lost.
"""

from devcluster.cluster import Cluster
from tests.integration.faults.conftest import Undisturbed, check
from tests.plans.run import run
from tests.plans.scenarios import SCENARIOS
from tests.plans.writes import Plan, met_another


async def test_a_disturbed_write_changes_nothing_in_the_end(
    cluster: Cluster,
    undisturbed: Undisturbed,
    plan: Plan,
) -> None:
    expected = await undisturbed(plan.scenario)
    rule = plan.rule()
    outcome = await run(cluster, SCENARIOS[plan.scenario], rule=rule)
    assert outcome.num_kills - expected.num_kills == ("crash" in plan.disturbance) * rule.fired
    check(outcome, expected)
    if not rule.fired:
        assert met_another(plan.write, outcome.writes), f"{plan.write} was not made this time"
