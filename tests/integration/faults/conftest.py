"""Runs of scenarios with and without faults; `--all-plans` disturbs every write there is."""

from collections.abc import Awaitable, Callable

import pytest

from devcluster.cluster import Cluster
from tests.operator_world import install_crds
from tests.plans.run import Outcome, run
from tests.plans.scenarios import SCENARIOS

Undisturbed = Callable[[str], Awaitable[Outcome]]


@pytest.fixture(scope="session")
def crds(cluster: Cluster) -> None:
    install_crds(cluster)


@pytest.fixture(scope="session")
def undisturbed(cluster: Cluster, crds: None) -> Undisturbed:
    """What becomes of a scenario when nothing goes wrong; played once."""
    known: dict[str, Outcome] = {}

    async def outcome(scenario: str) -> Outcome:
        if scenario not in known:
            known[scenario] = await run(cluster, SCENARIOS[scenario])
        return known[scenario]

    return outcome


def check(outcome: Outcome, undisturbed: Outcome) -> None:
    """All oracles."""
    complaints = outcome.complaints(undisturbed)
    assert not complaints, "\n".join(complaints)
