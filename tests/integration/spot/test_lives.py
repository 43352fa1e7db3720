"""Whatever the market does, and whenever the operator dies: the same worlds, the same cost."""

import pytest

from devcluster.cluster import Cluster
from tests.integration.spot.lives import LIVES, Life, operator_killed
from tests.plans.run import Outcome, run


def check(outcome: Outcome, life: Life) -> None:
    assert outcome.violations == []
    assert life.strays(outcome.worlds) == []


@pytest.mark.parametrize("name", LIVES)
async def test_a_life_leads_by_its_worlds_and_costs_what_was_used(
    empty_cluster: Cluster, name: str
) -> None:
    check(await run(empty_cluster, LIVES[name].play), LIVES[name])


@pytest.mark.parametrize("name", LIVES)
async def test_an_operator_that_dies_again_and_again_is_not_missed(
    empty_cluster: Cluster, name: str
) -> None:
    outcome = await run(
        empty_cluster, LIVES[name].play, trouble=lambda it: lambda: operator_killed(it)
    )
    check(outcome, LIVES[name])
    assert outcome.num_kills > 0
