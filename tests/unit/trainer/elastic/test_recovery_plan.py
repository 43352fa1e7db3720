"""What becomes of the state when a world comes together, as tables and as a property."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.elastic.recovery_plan import (
    FEW_SOURCES,
    NOTHING,
    Commit,
    ProcessState,
    Role,
    num_sources,
    plan_recovery,
)

KEEPS, APPLIES, TAKES = Role.KEEPS, Role.APPLIES, Role.TAKES
FOURTH, FIFTH = Commit(2, 4), Commit(2, 5)
NOW = 4  # the number of the world that comes together
JOINING_WORKER = ProcessState()


@pytest.mark.parametrize(
    ("states", "newest", "roles"),
    [
        pytest.param(
            [JOINING_WORKER, JOINING_WORKER], NOTHING, (KEEPS, KEEPS), id="a training begins"
        ),
        pytest.param(
            [ProcessState(FOURTH), ProcessState(FOURTH)],
            FOURTH,
            (KEEPS, KEEPS),
            id="broken in a forward",
        ),
        pytest.param(
            [ProcessState(FOURTH, FIFTH), ProcessState(FOURTH, FIFTH)],
            FOURTH,
            (KEEPS, KEEPS),
            id="nobody has committed: all discard",
        ),
        pytest.param(
            [ProcessState(FIFTH), ProcessState(FOURTH, FIFTH)],
            FIFTH,
            (KEEPS, APPLIES),
            id="one has committed: the other applies",
        ),
        pytest.param(
            [JOINING_WORKER, ProcessState(FOURTH, FIFTH), ProcessState(FIFTH)],
            FIFTH,
            (TAKES, APPLIES, KEEPS),
            id="a joining worker comes as well",
        ),
        pytest.param(
            [ProcessState(Commit(1, 90), Commit(1, 91)), ProcessState(Commit(2, 3))],
            Commit(2, 3),
            (TAKES, KEEPS),
            id="who was left out has gone on alone: the later world counts, not the longer one",
        ),
        pytest.param(
            [ProcessState(FOURTH, Commit(3, 5)), ProcessState(FIFTH)],
            FIFTH,
            (TAKES, KEEPS),
            id="what is pending was of another world",
        ),
    ],
)
def test_what_anybody_has_committed_is_committed(
    states: list[ProcessState], newest: Commit, roles: tuple[Role, ...]
) -> None:
    plan = plan_recovery(states, NOW)
    assert (plan.newest, plan.roles) == (newest, roles)
    assert plan.is_beginning == (newest == NOTHING)
    assert plan.idle == {rank for rank, role in enumerate(roles) if role is TAKES}


EVALUATING = ProcessState(FOURTH, is_evaluating=True)


@pytest.mark.parametrize(
    ("states", "is_passed", "agreed"),
    [
        pytest.param([EVALUATING, EVALUATING], False, FOURTH, id="they evaluate again together"),
        pytest.param(
            [EVALUATING, JOINING_WORKER],
            True,
            Commit(NOW, 5),
            id="a worker that joins knows no evaluation",
        ),
        pytest.param(
            [ProcessState(FOURTH), JOINING_WORKER],
            False,
            FOURTH,
            id="a worker joins between two steps",
        ),
        pytest.param(
            [ProcessState(FIFTH), ProcessState(FOURTH, FIFTH, is_evaluating=True), JOINING_WORKER],
            False,
            FIFTH,
            id="the evaluation is over, as one of them will learn",
        ),
    ],
)
def test_an_evaluation_is_ended_by_those_who_are_in_it(
    states: list[ProcessState], is_passed: bool, agreed: Commit
) -> None:
    plan = plan_recovery(states, NOW)
    assert (plan.evaluation_is_passed, plan.agreed) == (is_passed, agreed)


@pytest.mark.parametrize(
    "frozen",
    [
        pytest.param(
            ProcessState(FOURTH, FIFTH, is_evaluating=True), id="does not know how it ended"
        ),
        pytest.param(ProcessState(FIFTH), id="alone has seen its end"),
    ],
)
def test_a_passed_evaluation_is_another_commit_than_the_one_that_broke(
    frozen: ProcessState,
) -> None:
    without = plan_recovery([EVALUATING, EVALUATING, JOINING_WORKER], NOW)
    states = [*[ProcessState(without.agreed)] * 3, frozen]
    assert plan_recovery(states, NOW + 1).roles == (KEEPS, KEEPS, KEEPS, TAKES)


COMMITS = st.builds(Commit, st.integers(0, 3), st.integers(0, 3))
STANDINGS = st.lists(
    st.builds(ProcessState, COMMITS, COMMITS, st.booleans()), min_size=1, max_size=6
)


@given(STANDINGS)
def test_who_lacks_something_gets_it_from_one_who_has_it(states: list[ProcessState]) -> None:
    plan = plan_recovery(states, NOW)
    for rank, role in enumerate(plan.roles):
        if role is not KEEPS:
            sources = plan.sources_of(rank)
            assert len(sources) == (1 if role is APPLIES else min(plan.roles.count(KEEPS), 8))
            assert len({*sources}) == len(sources)
            assert all(states[source].committed == plan.newest for source in sources)
        assert (role is KEEPS) == (states[rank].committed == plan.newest)


def test_all_send_a_joining_worker_its_state_and_take_turns_to_be_the_first() -> None:
    plan = plan_recovery([ProcessState(FOURTH), ProcessState(FOURTH), *[JOINING_WORKER] * 4], NOW)
    assert [plan.sources_of(rank) for rank in range(2, 6)] == [(0, 1), (1, 0), (0, 1), (1, 0)]
    assert [plan.sources_of(rank, 1) for rank in range(2, 6)] == [(0,), (1,), (0,), (1,)]


@given(
    st.lists(st.sampled_from([KEEPS, TAKES]), min_size=1, max_size=60), st.integers(1, FEW_SOURCES)
)
def test_none_sends_more_shares_than_another_by_more_than_one(roles: list[Role], most: int) -> None:
    roles = [KEEPS, *roles]
    plan = plan_recovery(
        [ProcessState(FOURTH) if r is KEEPS else JOINING_WORKER for r in roles], NOW
    )
    takers = [rank for rank, role in enumerate(roles) if role is TAKES]
    sent = Counter(source for rank in takers for source in plan.sources_of(rank, most))
    counts = [sent[rank] for rank, role in enumerate(roles) if role is KEEPS]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) == len(takers) * min(most, len(counts))


@given(st.integers(1, 2000), st.integers(1, 200))
def test_many_send_about_equally_much_to_several(keepers: int, takers: int) -> None:
    count = num_sources(keepers, takers)
    assert min(8, keepers) <= count <= min(32, keepers)
    most, mean = -(-takers * count // keepers), takers * count / keepers
    if takers * 32 >= keepers:
        assert most <= 1.25 * mean
    if keepers <= 8:
        assert most == mean


def test_a_state_comes_once_to_each_worker_from_all_the_others_alike() -> None:
    """Seven workers of eight processes join 121 others."""
    joining = range(480, 536)
    states = [
        ProcessState(FOURTH if rank not in joining else NOTHING, worker=rank // 8)
        for rank in range(1024)
    ]
    plan = plan_recovery(states, NOW)
    shares = Counter(source for rank in joining for source in plan.sources_of(rank))
    assert max(shares.values()) <= 1.2 * shares.total() / plan.roles.count(KEEPS)
    for rank in joining:
        first = rank - rank % 8
        assert plan.mates_of(rank) == tuple(range(first, first + 8))
        assert len(plan.sources_of(rank)) == len(plan.sources_of(first))


@pytest.mark.parametrize(
    ("workers", "shards", "mates"),
    [
        pytest.param([0, 0, 2, 2], 1, [(0, 1), (0, 1), (2,)], id="by their worker"),
        pytest.param([None] * 4, 1, [(0,), (1,), (2,)], id="each is a worker of its own"),
        pytest.param([0, 0, 0, 0], 2, [(0, 2), (1,), (0, 2)], id="those that hold the same part"),
    ],
)
def test_those_of_a_worker_that_lack_a_state_are_mates(
    workers: list[int | None], shards: int, mates: list[tuple[int, ...]]
) -> None:
    """The first three lack it, and the last has it."""
    states = [ProcessState(worker=worker) for worker in workers[:3]]
    plan = plan_recovery([*states, ProcessState(FOURTH, worker=workers[3])], NOW, shards)
    assert [plan.mates_of(rank) for rank in range(3)] == mates


@pytest.mark.parametrize(
    ("states", "sources"),
    [
        pytest.param(
            [ProcessState(FIFTH), ProcessState(FIFTH), JOINING_WORKER, JOINING_WORKER],
            [(), (), (0,), (1,)],
            id="each from who holds the same part",
        ),
        pytest.param(
            [JOINING_WORKER, ProcessState(FIFTH), ProcessState(FIFTH), JOINING_WORKER],
            [(2,), (), (), (1,)],
            id="the parts are in different copies",
        ),
        pytest.param(
            [ProcessState(FIFTH), ProcessState(FOURTH, FIFTH)],
            [(), (0,)],
            id="what is committed is the same for all parts",
        ),
        pytest.param(
            [ProcessState(FIFTH), ProcessState(FOURTH, FIFTH), JOINING_WORKER, JOINING_WORKER],
            [(), (0,), (0,), ()],
            id="who would give it has yet to apply it",
        ),
        pytest.param([ProcessState(FIFTH), JOINING_WORKER], [(), ()], id="nobody holds that part"),
        pytest.param(
            [*[ProcessState(FIFTH)] * 4, JOINING_WORKER, JOINING_WORKER],
            [(), (), (), (), (0, 2), (1, 3)],
            id="each from all who hold the same part",
        ),
    ],
)
def test_state_comes_from_who_holds_the_same_part_of_the_model(
    states: list[ProcessState], sources: list[tuple[int, ...]]
) -> None:
    plan = plan_recovery(states, NOW, shards=2)
    lack = [role is not KEEPS for role in plan.roles]
    found = [plan.sources_of(rank) if lacks else () for rank, lacks in enumerate(lack)]
    assert found == sources
    stranded = [plan.must_restart(rank, states) for rank in range(len(states))]
    assert stranded == [lacks and not each for lacks, each in zip(lack, sources, strict=True)]


def test_who_would_evaluate_without_its_mates_is_stranded() -> None:
    both = ProcessState(FOURTH, is_evaluating=True)
    states = [both, both, both, JOINING_WORKER]
    plan = plan_recovery(states, NOW, shards=2)
    assert [plan.must_restart(rank, states) for rank in range(4)] == [False, False, True, False]
    is_through = [ProcessState(FIFTH), ProcessState(FOURTH, FIFTH, is_evaluating=True)]
    assert not plan_recovery(is_through, NOW, shards=2).must_restart(1, is_through)
