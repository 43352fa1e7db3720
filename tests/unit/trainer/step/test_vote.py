"""What processes say at the end of a step survives being summed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.process.checksum import CHECKSUM_BITS
from spotrun_trainer.step.vote import (
    StepVote,
    decode,
    encode,
    have_equal_state,
    sum_votes,
)

VOTES = st.integers(0, 1)
BALLOTS = st.builds(
    StepVote,
    save=VOTES,
    leave=VOTES,
    hopeless=VOTES,
    stop=VOTES,
    missing=st.integers(0, 10_000),
    unknown=st.integers(0, 10_000),
    checksum=st.integers(0, 2**CHECKSUM_BITS - 1),
)


@given(st.lists(BALLOTS, min_size=1, max_size=50))
def test_sums_of_numbers_are_what_all_said_together(votes: list[StepVote]) -> None:
    sums = [sum(column) for column in zip(*map(encode, votes), strict=True)]
    assert sum_votes(votes) == decode(sums)


def test_one_vote_among_thousands_is_heard() -> None:
    assert sum_votes([StepVote()] * 9_999 + [StepVote(leave=1)]).leave


@given(BALLOTS, st.integers(1, 2_000_000))
def test_equal_checksums_are_found_equal_in_a_large_world(own: StepVote, size: int) -> None:
    assert have_equal_state(decode([value * size for value in encode(own)]), own, size)


@given(st.lists(st.integers(0, 2**CHECKSUM_BITS - 1), min_size=2, max_size=8))
def test_if_checksums_differ_somebody_sees_it(checksums: list[int]) -> None:
    votes = [StepVote(checksum=one) for one in checksums]
    everything = sum_votes(votes)
    seen = [have_equal_state(everything, one, len(votes)) for one in votes]
    assert all(seen) == (len(set(checksums)) == 1)


@pytest.mark.parametrize("field", ["save", "leave", "hopeless", "stop"])
def test_who_says_nothing_says_no(field: str) -> None:
    assert not getattr(StepVote(), field)
