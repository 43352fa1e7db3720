"""What becomes of the state when a world comes together, as tables and as a property."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.elastic.recovery_plan import NOTHING, Commit, Part, Standing, conclude

KEEPS, APPLIES, TAKES = Part.KEEPS, Part.APPLIES, Part.TAKES
FOURTH, FIFTH = Commit(2, 4), Commit(2, 5)
NOW = 4  # the generation of the world that comes together
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
    verdict = conclude(standings, NOW)
    assert (verdict.newest, verdict.parts) == (newest, parts)
    assert verdict.is_beginning == (newest == NOTHING)
    assert verdict.idle == {rank for rank, part in enumerate(parts) if part is TAKES}


EVALUATING = Standing(FOURTH, is_evaluating=True)


@pytest.mark.parametrize(
    ("standings", "is_passed", "agreed"),
    [
        pytest.param([EVALUATING, EVALUATING], False, FOURTH, id="they evaluate again together"),
        pytest.param(
            [EVALUATING, NEWCOMER], True, Commit(NOW, 5), id="a newcomer knows of no evaluation"
        ),
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
    verdict = conclude(standings, NOW)
    assert (verdict.evaluation_is_passed, verdict.agreed) == (is_passed, agreed)


@pytest.mark.parametrize(
    "frozen",
    [
        pytest.param(Standing(FOURTH, FIFTH, is_evaluating=True), id="does not know how it ended"),
        pytest.param(Standing(FIFTH), id="alone has seen its end"),
    ],
)
def test_a_passed_evaluation_is_another_commit_than_the_one_that_broke(frozen: Standing) -> None:
    without = conclude([EVALUATING, EVALUATING, NEWCOMER], NOW)
    standings = [*[Standing(without.agreed)] * 3, frozen]
    assert conclude(standings, NOW + 1).parts == (KEEPS, KEEPS, KEEPS, TAKES)


COMMITS = st.builds(Commit, st.integers(0, 3), st.integers(0, 3))
STANDINGS = st.lists(st.builds(Standing, COMMITS, COMMITS, st.booleans()), min_size=1, max_size=6)


@given(STANDINGS)
def test_who_lacks_something_gets_it_from_one_who_has_it(standings: list[Standing]) -> None:
    verdict = conclude(standings, NOW)
    for rank, part in enumerate(verdict.parts):
        source = verdict.source_of(rank)
        assert source is not None
        assert standings[source].committed == verdict.newest
        assert (part is KEEPS) == (standings[rank].committed == verdict.newest)


def test_newcomers_are_spread_over_those_who_give() -> None:
    verdict = conclude([Standing(FOURTH), Standing(FOURTH), *[NEWCOMER] * 4], NOW)
    assert [verdict.source_of(rank) for rank in range(2, 6)] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("standings", "sources"),
    [
        pytest.param(
            [Standing(FIFTH), Standing(FIFTH), NEWCOMER, NEWCOMER],
            [0, 1, 0, 1],
            id="each from who holds the same part",
        ),
        pytest.param(
            [NEWCOMER, Standing(FIFTH), Standing(FIFTH), NEWCOMER],
            [2, 1, 2, 1],
            id="the parts are in different copies",
        ),
        pytest.param(
            [Standing(FIFTH), Standing(FOURTH, FIFTH)],
            [0, 0],
            id="what is committed is the same for all parts",
        ),
        pytest.param(
            [Standing(FIFTH), Standing(FOURTH, FIFTH), NEWCOMER, NEWCOMER],
            [0, 0, 0, None],
            id="who would give it has yet to apply it",
        ),
        pytest.param([Standing(FIFTH), NEWCOMER], [0, None], id="nobody holds that part"),
    ],
)
def test_state_comes_from_who_holds_the_same_part_of_the_model(
    standings: list[Standing], sources: list[int | None]
) -> None:
    verdict = conclude(standings, NOW, shards=2)
    assert [verdict.source_of(rank) for rank in range(len(standings))] == sources
    stranded = [verdict.strands(rank, standings) for rank in range(len(standings))]
    assert stranded == [source is None for source in sources]


def test_who_would_evaluate_without_its_mates_is_stranded() -> None:
    both = Standing(FOURTH, is_evaluating=True)
    standings = [both, both, both, NEWCOMER]
    verdict = conclude(standings, NOW, shards=2)
    assert [verdict.strands(rank, standings) for rank in range(4)] == [False, False, True, False]
    is_through = [Standing(FIFTH), Standing(FOURTH, FIFTH, is_evaluating=True)]
    assert not conclude(is_through, NOW, shards=2).strands(1, is_through)
