import json
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.agents.answers import Answers, Published, world_secret
from spotrun.api.names import Phase
from spotrun.api.status import Entry
from spotrun.money.units import Usd
from spotrun.state.job_state import World
from spotrun.state.stored.cost import Cost
from spotrun.wire import Answer, read_answer, write_answer
from tests.support.jobs.published_jobs import KEY, UID, job, peer, world


def place(answers: Answers, worker_id: int) -> tuple[int, int, tuple[str, ...]] | None:
    found = answers.answer(worker_id).world
    return (found.rank, found.processes, found.neighbours) if found is not None else None


@pytest.mark.parametrize(
    ("members", "processes", "expected"),
    [
        pytest.param("0", 1, {0: (0, 1, ()), 1: None}, id="alone, nobody to watch"),
        pytest.param(
            "0-1", 1, {0: (0, 1, ("10.0.0.1",)), 1: (1, 1, ("10.0.0.0",))}, id="each other"
        ),
        pytest.param(
            "0-2",
            1,
            {
                0: (0, 1, ("10.0.0.2", "10.0.0.1")),
                1: (1, 1, ("10.0.0.0", "10.0.0.2")),
                2: (2, 1, ("10.0.0.1", "10.0.0.0")),
                3: None,
            },
            id="a ring",
        ),
        pytest.param(
            "3,0-1",
            8,
            {
                3: (0, 8, ("10.0.0.1", "10.0.0.0")),
                0: (8, 8, ("10.0.0.3", "10.0.0.1")),
                1: (16, 8, ("10.0.0.0", "10.0.0.3")),
                2: None,
            },
            id="in the order of the members, each with all of its processes",
        ),
    ],
)
def test_places_in_a_world(
    members: str, processes: int, expected: dict[int, tuple[int, int, tuple[str, ...]] | None]
) -> None:
    answers = Answers(job(world(members), processes=processes), KEY)

    assert {worker_id: place(answers, worker_id) for worker_id in expected} == expected


def test_a_neighbour_without_an_address_is_named_once_it_has_one() -> None:
    pods = {0: peer(0), 1: peer(1, address=None), 2: peer(2)}

    early, late = (Answers(job(world("0-2"), pods=p), KEY) for p in (pods, {**pods, 1: peer(1)}))

    assert place(early, 0) == (0, 1, ("10.0.0.2",))
    assert place(late, 0) == (0, 1, ("10.0.0.2", "10.0.0.1"))
    assert early.version(0) != late.version(0)
    assert early.version(1) == late.version(1)


def test_all_of_a_world_comes_from_status() -> None:
    placed = world("0-1", world_number=7, entry=Entry.BOUNDARY, restore="step-42.g6")

    answer = Answers(job(placed, processes=2), KEY).answer(1)

    assert answer.phase == "Running"
    assert answer.stop_at is None
    found = answer.world
    assert found is not None
    assert (found.number, found.size, found.store) == (7, 4, "10.0.0.0:29400")
    assert (found.how.value, found.switch, found.restore) == ("Boundary", True, "step-42.g6")
    assert found.secret == world_secret(KEY, UID, 7)


def test_a_pending_world_is_told_to_all_and_a_leaving_worker_has_no_process_in_it() -> None:
    answers = Answers(
        job(world("1-3", world_number=5, is_active=False, state_holders="0-1"), processes=4), KEY
    )

    worlds = {worker_id: answers.answer(worker_id).world for worker_id in range(4)}

    assert {
        worker_id: w is not None and w.switch for worker_id, w in worlds.items()
    } == dict.fromkeys(range(4), False)
    leaving = worlds[0]
    assert leaving is not None
    assert (leaving.rank, leaving.processes, leaving.size) == (12, 0, 12)
    assert (leaving.secret, leaving.store, leaving.neighbours) == ("", None, ())


@pytest.mark.parametrize(
    "published",
    [
        pytest.param(
            job(world("1-3", state_holders="0-1")), id="left out of a world that has begun"
        ),
        pytest.param(job(), id="no world yet"),
        pytest.param(job(world("", is_active=False)), id="a world of nobody"),
        pytest.param(job(world("0-3"), phase=Phase.SUCCEEDED), id="succeeded"),
        pytest.param(job(world("0-3"), phase=Phase.FAILED), id="failed"),
    ],
)
def test_no_world(published: Published) -> None:
    answer, newest = Answers(published, KEY).answer(0), published.status.world
    assert answer.world is None
    assert answer.world_number == newest.number


@pytest.mark.parametrize("is_planned", [True, False])
def test_who_is_in_no_world_is_told_whether_that_was_planned(*, is_planned: bool) -> None:
    nobody = replace(world("", is_active=False), is_planned=is_planned)
    found = read_answer(write_answer(Answers(job(nobody, phase=Phase.RECOVERING), KEY).answer(0)))
    assert (found.world, found.planned) == (None, is_planned)


@pytest.mark.parametrize(
    ("placed", "expected"),
    [
        pytest.param(
            world("0,2", state_holders="0,2", late_workers="1"), {1}, id="the others train"
        ),
        pytest.param(
            world("", is_active=False, state_holders="0,2", late_workers="1"),
            {1},
            id="or wait with it",
        ),
        pytest.param(
            world("0-2", is_active=False, state_holders="0,2", late_workers="1"),
            {1},
            id="or will take it in again",
        ),
        pytest.param(
            world("0-2", state_holders="0,2", late_workers="1"), set(), id="it is taken in again"
        ),
        pytest.param(
            world("0-2", is_active=False, state_holders="0-1", late_workers="1"),
            set(),
            id="it trains by now",
        ),
        pytest.param(
            world("", is_active=False, state_holders="1", late_workers="1"),
            set(),
            id="it has the state",
        ),
    ],
)
def test_who_came_too_late_is_told_that_the_others_have_the_state(
    placed: World, expected: set[int]
) -> None:
    answers = Answers(job(placed), KEY)
    unmarked = Answers(job(replace(placed, late_workers=())), KEY)
    assert {worker_id for worker_id in range(3) if answers.answer(worker_id).left_out} == expected
    differ = {n for n in range(3) if answers.version(n) != unmarked.version(n)}
    assert differ == expected
    assert (answers.content != unmarked.content) is bool(expected)


def test_a_job_without_a_phase_is_pending() -> None:
    assert Answers(job(phase=None), KEY).answer(0).phase == "Pending"


def test_checkpoints_are_ordered_as_status_says() -> None:
    answers = [Answers(job(world("0"), ordered=n), KEY).answer(0) for n in (0, 1, 7)]

    assert [answer.orders.checkpoint for answer in answers] == [0, 1, 7]


def test_the_newest_checkpoint_in_status_is_acknowledged_to_all() -> None:
    answers = Answers(job(world("0-1", restore="step-4.g1"), checkpoint="step-9.g2"), KEY)

    assert [answers.answer(worker_id).acknowledged for worker_id in (0, 1)] == ["step-9.g2"] * 2


def test_secrets_differ_between_worlds_jobs_and_clusters() -> None:
    secrets = {
        world_secret(KEY, UID, 1),
        world_secret(KEY, UID, 2),
        world_secret(KEY, "other", 1),
        world_secret(b"other", UID, 1),
    }

    assert len(secrets) == 4
    assert world_secret(KEY, UID, 1) == world_secret(KEY, UID, 1)


# What each change below touches is answers to the worker, so its version must change.
CHANGES = {
    "world_number": job(world("0-2", world_number=2)),
    "switch": job(world("0-2", is_active=False)),
    "store": job(world("0-2", store=None)),
    "how": job(world("0-2", entry=Entry.RESTART)),
    "restore": job(world("0-2", restore="step-1.g1")),
    "size": job(world("0-1")),
    "rank": job(world("1,0,2")),
    "phase": job(world("0-2"), phase=Phase.RECOVERING),
    "order": job(world("0-2"), ordered=3),
    "acknowledged": job(world("0-2"), checkpoint="step-9.g1"),
    "processes": job(world("0-2"), processes=2),
    "job": job(world("0-2"), uid="another"),
    "world": job(),
    "planned": job(replace(world("0-2"), is_planned=True)),
    "trained": job(world("0-2"), trained=(3, 2)),
}


@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_changes_the_version(changed: Published) -> None:
    before, after = Answers(job(world("0-2")), KEY), Answers(changed, KEY)

    assert before.version(0) != after.version(0)
    assert before.content != after.content


def test_a_world_says_with_how_many_processes_a_step_was_made_last() -> None:
    shared = Answers(job(world("0-2"), processes=2, trained=(3, 2)), KEY).answer(0).world
    assert shared is not None
    assert (shared.size, shared.trained) == (6, 4)


def test_what_is_not_told_does_not_change_the_version() -> None:
    before = Answers(job(world("0-2")), KEY)
    after = Answers(job(world("0-2"), pods=40), KEY)

    assert before.version(0) == after.version(0)
    assert before.content == after.content


members = st.lists(st.integers(0, 60), unique=True, max_size=30)


@given(members, members, st.integers(1, 8), st.booleans())
def test_ranks_cover_the_world_once(
    chosen: list[int], trained: list[int], processes: int, is_active: bool
) -> None:
    text, before = (",".join(map(str, worker_ids)) for worker_ids in (chosen, trained))
    placed = world(text, is_active=is_active, state_holders=before)
    published = job(placed, pods=61, processes=processes)
    here, there = Answers(published, KEY), Answers(published, KEY)

    answers = {worker_id: here.answer(worker_id) for worker_id in range(61)}

    ranks = [
        rank
        for answer in answers.values()
        if answer.world is not None
        for rank in range(answer.world.rank, answer.world.rank + answer.world.processes)
    ]
    assert sorted(ranks) == list(range(len(chosen) * processes))
    for worker_id, answer in answers.items():
        assert answer.version == here.version(worker_id) == there.answer(worker_id).version
        if answer.world is not None:
            assert answer.world.size == len(chosen) * processes
            assert f"10.0.0.{worker_id}" not in answer.world.neighbours


@given(st.lists(st.sampled_from(sorted(CHANGES)), min_size=2, max_size=2), st.integers(0, 2))
def test_equal_versions_mean_equal_answers(names: list[str], worker_id: int) -> None:
    one, other = (Answers(CHANGES[name], KEY).answer(worker_id) for name in names)

    assert (one.version == other.version) == (one == other)


def test_answers_survive_the_wire() -> None:
    answer: Answer = Answers(job(world("0-2", restore="step-1.g1"), processes=8), KEY).answer(1)

    assert read_answer(write_answer(answer)) == answer
    assert json.loads(write_answer(answer))["world"]["how"] == "Abort"


def test_under_a_budget_workers_are_told_when_to_stop() -> None:
    published = job(world("0-1"))
    cost = Cost(usd=Usd(1), stop_at=datetime.fromisoformat("2026-03-01T09:00:00.5+00:00"))
    limited = replace(published, status=replace(published.status, cost=cost))
    answers, without = Answers(limited, KEY).answer(0), Answers(published, KEY).answer(0)

    assert (answers.stop_at, without.stop_at) == (1772355600.5, None)
    assert answers.version != without.version
