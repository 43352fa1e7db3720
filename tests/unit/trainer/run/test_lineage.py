"""What becomes of the state when a world comes together, as tables and as a property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.lineage import NOTHING, Commit, Part, Standing, conclude

KEEPS, APPLIES, TAKES = Part.KEEPS, Part.APPLIES, Part.TAKES
FOURTH, FIFTH = Commit(2, 4), Commit(2, 5)
NEWCOMER = Standing()


@pytest.mark.parametrize(
    ("standings", "newest", "parts"),
    [
        pytest.param([NEWCOMER, NEWCOMER], NOTHING, (KEEPS, KEEPS), id="a training begins"),
        pytest.param(
            [Standing(FOURTH), Standing(FOURTH)], FOURTH, (KEEPS, KEEPS), id="broken in a forward"
        ),
        pytest.param(
            [Standing(FOURTH, FIFTH), Standing(FOURTH, FIFTH)],
            FOURTH,
            (KEEPS, KEEPS),
            id="nobody has committed: all discard",
        ),
        pytest.param(
            [Standing(FIFTH), Standing(FOURTH, FIFTH)],
            FIFTH,
            (KEEPS, APPLIES),
            id="one has committed: the other applies",
        ),
        pytest.param(
            [NEWCOMER, Standing(FOURTH, FIFTH), Standing(FIFTH)],
            FIFTH,
            (TAKES, APPLIES, KEEPS),
            id="a newcomer comes as well",
        ),
        pytest.param(
            [Standing(Commit(1, 90), Commit(1, 91)), Standing(Commit(2, 3))],
            Commit(2, 3),
            (TAKES, KEEPS),
            id="who was left out has gone on alone: the later world counts, not the longer one",
        ),
        pytest.param(
            [Standing(FOURTH, Commit(3, 5)), Standing(FIFTH)],
            FIFTH,
            (TAKES, KEEPS),
            id="what is pending was of another world",
        ),
    ],
)
def test_what_anybody_has_committed_is_committed(
    standings: list[Standing], newest: Commit, parts: tuple[Part, ...]
) -> None:
    verdict = conclude(standings)
    assert (verdict.newest, verdict.parts) == (newest, parts)
    assert verdict.is_beginning == (newest == NOTHING)
    assert verdict.idle == {rank for rank, part in enumerate(parts) if part is TAKES}


EVALUATING = Standing(FOURTH, is_evaluating=True)


@pytest.mark.parametrize(
    ("standings", "is_passed", "agreed"),
    [
        pytest.param([EVALUATING, EVALUATING], False, FOURTH, id="they evaluate again together"),
        pytest.param([EVALUATING, NEWCOMER], True, FIFTH, id="a newcomer knows of no evaluation"),
        pytest.param(
            [Standing(FOURTH), NEWCOMER], False, FOURTH, id="a newcomer comes between two steps"
        ),
        pytest.param(
            [Standing(FIFTH), Standing(FOURTH, FIFTH, is_evaluating=True), NEWCOMER],
            False,
            FIFTH,
            id="the evaluation is over, as one of them will learn",
        ),
    ],
)
def test_an_evaluation_is_ended_by_those_who_are_in_it(
    standings: list[Standing], is_passed: bool, agreed: Commit
) -> None:
    verdict = conclude(standings)
    assert (verdict.evaluation_is_passed, verdict.agreed) == (is_passed, agreed)


COMMITS = st.builds(Commit, st.integers(0, 3), st.integers(0, 3))
STANDINGS = st.lists(st.builds(Standing, COMMITS, COMMITS, st.booleans()), min_size=1, max_size=6)


@given(STANDINGS)
def test_who_lacks_something_gets_it_from_one_who_has_it(standings: list[Standing]) -> None:
    verdict = conclude(standings)
    for rank, part in enumerate(verdict.parts):
        source = verdict.source_of(rank)
        assert standings[source].committed == verdict.newest
        assert (part is KEEPS) == (standings[rank].committed == verdict.newest)


def test_newcomers_are_spread_over_those_who_give() -> None:
    verdict = conclude([Standing(FOURTH), Standing(FOURTH), *[NEWCOMER] * 4])
    assert [verdict.source_of(rank) for rank in range(2, 6)] == [0, 1, 0, 1]
