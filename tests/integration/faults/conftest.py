"""Runs of scenarios with and without faults; see `--all-plans` and `--record-plans`."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from tests.plans.run import Outcome, run
from tests.plans.scenarios import SCENARIOS
from tests.plans.troubles import ESSENTIAL, TROUBLES
from tests.plans.writes import all_plans, pruned

RECORDED = Path(__file__).with_name("recorded_writes.json")

Undisturbed = Callable[[str], Awaitable[Outcome]]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fault plans")
    group.addoption("--all-plans", action="store_true", help="disturb every write, in every way")
    group.addoption(
        "--record-plans", action="store_true", help=f"write {RECORDED.name} from undisturbed runs"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    everything = metafunc.config.getoption("--all-plans")
    if "plan" in metafunc.fixturenames:
        plans = all_plans(json.loads(RECORDED.read_text()))
        metafunc.parametrize("plan", plans if everything else pruned(plans), ids=str)
    if "trouble" in metafunc.fixturenames:
        metafunc.parametrize("trouble", TROUBLES if everything else ESSENTIAL)
    if "scenario" in metafunc.fixturenames:
        metafunc.parametrize("scenario", SCENARIOS if everything else ["worker_lost"])


@pytest.fixture(scope="session")
def undisturbed(cluster: Cluster, crds: None) -> Undisturbed:
    """The outcome of a scenario when nothing goes wrong; played once."""
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
