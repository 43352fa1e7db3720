"""A pool's state: what was read is written as it was, and the other way round."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devcluster.client import Manifest
from spotrun.api.capacitypool import CapacityPoolStatus
from spotrun.state.stored.pools.pool_codec import read, read_lifetimes, write, write_lifetimes
from spotrun.state.stored.pools.pool_state import AGES, AtAge, PoolState
from tests.support.api.status_strategies import statuses

ages = st.dictionaries(
    st.sampled_from(list(AGES)), st.builds(AtAge, st.integers(0, 99), st.integers(1, 999))
)


def normal_form(status: CapacityPoolStatus) -> Manifest:
    """Return the status as it is written: numbers are there, and empty lists are left out."""
    manifest: Manifest = {"nodes": 0, "interruptions24h": 0, "available": "Unknown"}
    manifest |= status.manifest()
    price, node = manifest.get("price", {}), manifest.get("node", {})
    for parent, name in (
        (manifest, "interruptions"),
        (manifest, "lifetimes"),
        (price, "recent"),
        (price, "stale"),
        (node, "accelerator"),
    ):
        if not parent.get(name):
            parent.pop(name, None)
    return manifest


@given(statuses(CapacityPoolStatus), ages)
def test_what_was_read_is_written_as_it_was(
    status: CapacityPoolStatus, known: dict[str, AtAge]
) -> None:
    status = status.model_copy(update={"lifetimes": write_lifetimes(known)})
    assert write(read(status)).manifest() == normal_form(status)


@settings(max_examples=50)
@given(statuses(CapacityPoolStatus), ages)
def test_what_was_written_is_read_as_it_was(
    status: CapacityPoolStatus, known: dict[str, AtAge]
) -> None:
    state = read(status.model_copy(update={"lifetimes": write_lifetimes(known)}))
    content = write(state).model_dump_json(by_alias=True, exclude_unset=True)
    stored = CapacityPoolStatus.model_validate_json(content, by_alias=True, by_name=False)
    assert read(stored) == state


def test_of_a_pool_without_a_status_nothing_is_known() -> None:
    assert read(CapacityPoolStatus()) == PoolState()


def test_every_field_that_is_stored_has_a_place_in_the_state() -> None:
    assert {*PoolState.__dataclass_fields__} == {*CapacityPoolStatus.model_fields}


@pytest.mark.parametrize("text", ["", "0m", "0m x/3", "9m 1/2", "0m -1/2", "0m 1/2/3", ", ,"])
def test_lifetimes_that_cannot_be_read_are_passed_over(text: str) -> None:
    assert read_lifetimes(text) == {}


@given(ages)
@settings(max_examples=50)
def test_lifetimes_are_read_as_they_were_written(known: dict[str, AtAge]) -> None:
    assert read_lifetimes(write_lifetimes(known)) == known
