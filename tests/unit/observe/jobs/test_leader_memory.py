"""For how long what is known of a job is worth something."""

import pytest

from spotrun.observe.jobs.leader_memory import STATUS, Failing, Memory
from spotrun.state.snapshot import Undone
from tests.support.jobs.builders import a_job

BEGAN = 100.0


def filled() -> Memory:
    memory = Memory(policy_at=5.0, budget_at=5.0, last=a_job().snapshot(), lost_at={3: 7.0})
    memory.keep_only("uid", BEGAN)
    return memory


@pytest.mark.parametrize(
    ("uid", "leading_since"),
    [
        pytest.param("uid", BEGAN, id="nothing has changed"),
        pytest.param(None, BEGAN, id="the job is gone, and what it has cost is yet to be told"),
    ],
)
def test_what_is_known_stays_while_one_job_has_the_name_and_nobody_else_leads(
    uid: str | None, leading_since: float
) -> None:
    memory, before = filled(), filled()

    memory.keep_only(uid, leading_since)

    assert memory == before


@pytest.mark.parametrize(
    ("uid", "leading_since"),
    [
        pytest.param("another", BEGAN, id="another job has its name"),
        pytest.param("uid", BEGAN + 60, id="others have led meanwhile"),
        pytest.param(None, BEGAN + 60, id="others have led until it was gone"),
    ],
)
def test_what_is_known_of_another_job_or_from_before_others_led_is_forgotten(
    uid: str | None, leading_since: float
) -> None:
    memory = filled()

    memory.keep_only(uid, leading_since)

    assert memory == Memory(uid=uid, leading_since=leading_since)


def test_a_job_that_others_made_again_while_it_was_gone_here_is_another_one() -> None:
    memory = filled()

    memory.keep_only(None, BEGAN)
    memory.keep_only("another", BEGAN)

    assert memory == Memory(uid="another", leading_since=BEGAN)


def test_a_status_that_could_not_be_stored_is_none_to_tell_of_in_the_status() -> None:
    # Once it can be told it is stored.
    memory = Memory(failing={f"{STATUS} of world_number 1": Failing(9, "too large", 0.0)})
    assert memory.undone is None
    memory.failing["the removal of worker 3"] = Failing(3, "no", 0.0)
    assert memory.undone == Undone("the removal of worker 3", "no")
