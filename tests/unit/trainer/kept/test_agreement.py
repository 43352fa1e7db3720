import pytest
from hypothesis import given
from hypothesis import strategies as some

from spotrun_trainer.kept.agreement import NONE, Claim, Plan, agree

FRESH = Claim(0)


def kept(step: int, size: int = 9, *, loaded: int = 0) -> Claim:
    return Claim(loaded, step, size)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([FRESH, FRESH], Plan(0, False, 0, frozenset())),
        ([Claim(7), Claim(7)], Plan(7, False, 0, frozenset())),
        ([FRESH, Claim(7)], Plan(7, False, 1, frozenset({0}))),
        ([kept(5), kept(5)], Plan(5, True, 0, frozenset())),
        ([kept(4), kept(5)], Plan(5, True, 1, frozenset({0}))),
        ([FRESH, kept(5), FRESH], Plan(5, True, 1, frozenset({0, 2}))),
        ([kept(5), Claim(7)], Plan(7, False, 1, frozenset({0}))),
        ([kept(8), Claim(7)], Plan(8, True, 0, frozenset({1}))),
        ([kept(7, loaded=7), Claim(7)], Plan(7, False, 0, frozenset())),
        ([kept(0), FRESH], Plan(0, False, 0, frozenset())),
        ([kept(5, size=9), kept(5, size=8)], Plan(5, True, 0, frozenset({1}))),
    ],
)
def test_the_newest_state_counts(claims: list[Claim], expected: Plan) -> None:
    assert agree(claims) == expected


STEPS = some.integers(0, 5)
CLAIMS = some.lists(some.builds(Claim, STEPS, STEPS | some.just(NONE), STEPS), min_size=1)


@given(CLAIMS)
def test_nobody_has_a_newer_one_and_its_source_has_it(claims: list[Claim]) -> None:
    plan = agree(claims)
    source = claims[plan.source]
    assert plan.step == max(max(one.loaded_step, one.kept_step) for one in claims)
    assert plan.step == (source.kept_step if plan.is_kept else source.loaded_step)
    assert plan.source not in plan.lacking
    for rank in set(range(len(claims))) - plan.lacking:
        own = claims[rank]
        assert plan.step == (own.kept_step if plan.is_kept else own.loaded_step)
