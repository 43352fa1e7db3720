"""The arguments of ADR 10 and 16: what a commit needs, and what goes wrong without each part."""

import pytest

from tests.support.gpu.device_commit.designs import (
    WAITS,
    Design,
    one_communicator,
    sums_elsewhere,
    sums_in_copies,
    unordered_streams,
)
from tests.support.gpu.device_commit.explorer import Fault, explore

WRONG, APART, STRANDED = Fault.WRONG_SUM, Fault.TWO_APART, Fault.STRANDED


@pytest.mark.parametrize(
    "design",
    [
        pytest.param(one_communicator(2, steps=3), id="two members, three steps"),
        pytest.param(one_communicator(3, kills=2), id="three members, two steps, two killed"),
        pytest.param(sums_elsewhere(2, canary=True, steps=1), id="sums on another communicator"),
    ],
)
def test_the_proposed_design_is_sound_in_every_run(design: Design) -> None:
    found = explore(design)
    assert found.ends > 1_000  # it has looked
    assert not found.faults


@pytest.mark.parametrize(
    "design",
    [
        pytest.param(one_communicator(2, steps=3, **WAITS), id="two members"),
        pytest.param(one_communicator(3, steps=3, kills=2, **WAITS), id="three members"),
        pytest.param(
            sums_elsewhere(2, canary=True, steps=1, **WAITS), id="sums on another communicator"
        ),
    ],
)
def test_where_the_host_waits_one_place_for_sums_is_enough(design: Design) -> None:
    """As `Run` commits over NCCL (ADR 16): only the flag tells the host of an early end."""
    found = explore(design)
    assert found.ends > 100  # it has looked
    assert not found.faults


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(
            one_communicator(2, commit_is_bare=False, **WAITS), id="numbers in the commit"
        ),
        pytest.param(one_communicator(2, flag_is_exact=False, **WAITS), id="any positive sum"),
        pytest.param(one_communicator(2, abort_is_for_ever=False, **WAITS), id="not drained"),
        pytest.param(sums_elsewhere(2, canary=False, steps=1, **WAITS), id="no canary"),
    ],
)
def test_a_host_that_waits_needs_the_other_parts(broken: Design) -> None:
    assert explore(broken).faults[WRONG] > 0


@pytest.mark.parametrize(
    ("design", "fault"),
    [
        pytest.param(one_communicator(2, flag_is_reset=False), WRONG, id="stale flag"),
        pytest.param(one_communicator(2, flag_is_exact=False), WRONG, id="any positive sum"),
        pytest.param(one_communicator(2, abort_is_for_ever=False), WRONG, id="not drained"),
        pytest.param(one_communicator(2, commit_is_bare=False), WRONG, id="numbers in the commit"),
        pytest.param(unordered_streams(2), WRONG, id="streams without an order"),
        pytest.param(sums_elsewhere(2, canary=False, steps=1), WRONG, id="no canary for the sums"),
        pytest.param(one_communicator(2, sums_are_kept=False), STRANDED, id="sums overwritten"),
        pytest.param(
            sums_in_copies(1, 2, canaries_are_chained=False), STRANDED, id="canaries not chained"
        ),
    ],
)
def test_without_one_of_its_parts_a_run_goes_wrong(design: Design, fault: Fault) -> None:
    found = explore(design, until_first_fault=fault is STRANDED)
    assert found.faults[fault] > 0


def test_a_stale_flag_takes_members_two_steps_apart() -> None:
    assert explore(one_communicator(2, flag_is_reset=False)).faults[APART] > 0
