from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.status import MOST_AVOIDED, MOST_BLAMED_ONCE
from spotrun.policies.failures.node_blame import blamed_with, guilty, nodes_to_avoid
from spotrun.state.actions import Create
from spotrun.state.stored.failures import Restarts
from spotrun.wire import WRONG_DEVICE
from tests.support.jobs.builders import a_job


def test_a_node_blamed_twice_is_avoided() -> None:
    restarts = Restarts(blamed=("a", "b", "a", "c"))
    job = a_job(1).with_status(restarts=restarts)
    assert nodes_to_avoid(job.status) == ("a",)
    assert job.decide().actions == (Create(0, ("a",)),)


def test_a_device_that_computes_wrong_numbers_is_enough() -> None:
    assert guilty("a", "it failed") == ("a",)
    assert guilty("a", f"rank 1: {WRONG_DEVICE}: GPU-1 of a") == ("a", "a")
    assert guilty(None, WRONG_DEVICE) == ()


@given(st.lists(st.lists(st.sampled_from([f"n{i}" for i in range(60)]), max_size=6), max_size=60))
def test_who_is_blamed_twice_in_a_row_is_avoided_however_many_are_blamed_once(
    failures: list[list[str]],
) -> None:
    restarts = Restarts()
    for nodes in failures:
        restarts = Restarts(blamed=blamed_with(restarts, nodes))
        assert len(restarts.blamed) <= 2 * MOST_AVOIDED + MOST_BLAMED_ONCE
    restarts = Restarts(blamed=blamed_with(restarts, ["bad"]))
    restarts = Restarts(blamed=blamed_with(restarts, ["bad"]))
    assert "bad" in a_job(1).with_status(restarts=restarts).status.restarts.blamed
    assert "bad" in nodes_to_avoid(a_job(1).with_status(restarts=restarts).status)
