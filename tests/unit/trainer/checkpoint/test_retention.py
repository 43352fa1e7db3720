import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.retention import superseded

NAMES = st.builds(Name, st.integers(0, 30), st.integers(0, 3))


@pytest.mark.parametrize(
    ("complete", "half_made", "acknowledged", "deleted"),
    [
        pytest.param("1.1 2.1 3.1 4.1", "", "4.1", "1.1 2.1", id="the two newest stay"),
        pytest.param("1.1 2.1 3.1 4.1", "", "3.1", "1.1", id="and what is newer"),
        pytest.param("1.1 2.1", "", "2.1", "", id="there are no more than are kept"),
        pytest.param("1.1 3.1", "2.1", "3.1", "2.1", id="half-made ones count for nothing"),
        pytest.param("1.1 3.1", "4.1", "3.1", "", id="this one may be in the making"),
        pytest.param("3.1", "2.2", "3.1", "", id="this one too: its world began from an older one"),
        pytest.param("1.1 2.1 3.1 2.2", "", "3.1", "1.1", id="as complete ones of that world"),
        pytest.param("3.1 3.2", "1.1", "3.2", "1.1", id="one step, two worlds"),
        pytest.param("1.5 2.5 3.5 4.1", "", "4.1", "1.5 2.5", id="those of an earlier job go too"),
        pytest.param("3.1", "2.5", "3.1", "2.5", id="and what it has left half-made"),
        pytest.param("2.1 3.1 3.4 3.5", "", "3.1", "", id="but not in place of this one"),
        pytest.param("1.1 2.1 3.1", "", "9.1", "", id="the acknowledged one is not here"),
        pytest.param("1.1 2.1 3.1", "4.1", "4.1", "", id="the acknowledged one is not complete"),
    ],
)
def test_what_goes(complete: str, half_made: str, acknowledged: str, deleted: str) -> None:
    found = dict.fromkeys(names(complete), True) | dict.fromkeys(names(half_made), False)

    assert names(deleted) == superseded(found, names(acknowledged)[0], keep=2, world_number=2)


def names(text: str) -> list[Name]:
    return [Name(*map(int, word.split("."))) for word in text.split()]


@given(
    st.dictionaries(NAMES, st.booleans(), max_size=20), NAMES, st.integers(1, 4), st.integers(0, 3)
)
def test_the_acknowledged_and_all_newer_ones_stay(
    found: dict[Name, bool], acknowledged: Name, keep: int, world_number: int
) -> None:
    deleted = superseded(found, acknowledged, keep, world_number)

    assert acknowledged not in deleted
    assert all(name < acknowledged for name in deleted)
    complete = [name for name, is_complete in found.items() if is_complete]
    left = [name for name in complete if name not in deleted]
    assert len(left) >= min(keep, len(complete))


def test_at_least_one_is_kept() -> None:
    with pytest.raises(ValueError, match="must be at least 1, not 0"):
        superseded({}, Name(1, 1), 0, 1)
