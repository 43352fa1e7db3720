import pytest

from spotrun.policies.failures.backoff import nodes_to_avoid, pause_after
from spotrun.state.actions import Create
from spotrun.state.stored.failures import Restarts
from tests.support.jobs.builders import a_job


@pytest.mark.parametrize(("failures", "seconds"), [(1, 10), (2, 20), (5, 160), (6, 300), (99, 300)])
def test_the_pause_doubles_up_to_five_minutes(failures: int, seconds: int) -> None:
    assert pause_after(failures).total_seconds() == seconds


def test_a_node_blamed_twice_is_avoided() -> None:
    restarts = Restarts(blamed=("a", "b", "a", "c"))
    job = a_job(1).with_status(restarts=restarts)
    assert nodes_to_avoid(job.status) == ("a",)
    assert job.decide().actions == (Create(0, ("a",)),)
