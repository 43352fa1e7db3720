import asyncio
from collections.abc import Callable

import pytest

from spotrun.agents.answers import Peer
from spotrun.agents.long_poll import Board, WorkerRef
from spotrun.kube.resource import Key
from spotrun.wire import Answer
from tests.support.jobs.published_jobs import KEY, UID, job, peer, worker, world

LONG = 30.0
JOB = Key("team", "job")
OTHER = Key("team", "other")


@pytest.fixture
def board() -> Board:
    board = Board(KEY)
    board.publish(job(world("0-2")), version=10)
    return board


async def polling(
    board: Board, worker_id: int, seen: str | None = None
) -> asyncio.Task[Answer | None]:
    """A poll of what is new since now, that has begun to wait."""
    answer = board.answer(worker(worker_id))
    if seen is None:
        assert answer is not None
        seen = answer.version
    poll = asyncio.create_task(board.wait(worker(worker_id), seen, LONG))
    await asyncio.sleep(0)
    return poll


async def answered(poll: asyncio.Task[Answer | None]) -> Answer | None:
    return await asyncio.wait_for(poll, 1)


def world_number(answer: Answer | None) -> int | None:
    assert answer is not None
    return answer.world.number if answer.world is not None else None


async def test_what_was_not_seen_is_told_at_once(board: Board) -> None:
    for seen in ("", "something else"):
        assert world_number(await answered(await polling(board, 0, seen))) == 1


async def test_a_poll_is_held_until_there_is_news(board: Board) -> None:
    poll = await polling(board, 0)
    assert not poll.done()
    assert board.num_polls == 1

    board.publish(job(world("0-2", world_number=2)), version=11)

    assert world_number(await answered(poll)) == 2
    assert board.num_polls == 0


async def test_only_those_are_woken_for_whom_something_changed(board: Board) -> None:
    polls = [await polling(board, worker_id) for worker_id in range(4)]

    board.publish(job(world("0-2"), pods={**pods(), 2: peer(2, address="10.9.9.9")}), 11)
    await asyncio.sleep(0.01)

    # 0 and 1 are the neighbours of 2; 3 is no member.
    assert [poll.done() for poll in polls] == [True, True, False, False]
    board.release()
    await asyncio.gather(*polls)


def pods() -> dict[int, Peer]:
    return {worker_id: peer(worker_id) for worker_id in range(4)}


async def test_what_is_the_same_wakes_nobody(board: Board) -> None:
    poll = await polling(board, 0)

    board.publish(job(world("0-2"), pods=9), version=11)
    await asyncio.sleep(0.01)

    assert not poll.done()
    board.release()
    await answered(poll)


async def test_without_news_the_poll_ends_with_what_is_known(board: Board) -> None:
    answer = board.answer(worker(0))
    assert answer is not None

    assert await board.wait(worker(0), answer.version, timeout_seconds=0.01) == answer
    assert board.num_polls == 0


async def test_a_newer_poll_of_a_worker_has_the_older_one_answered(board: Board) -> None:
    first = await polling(board, 0)
    second = await polling(board, 0)

    await answered(first)

    assert not second.done()
    assert board.num_polls == 1
    board.publish(job(world("0-2", world_number=2)), version=11)
    assert world_number(await answered(second)) == 2


async def test_a_poll_whose_agent_hung_up_is_forgotten(board: Board) -> None:
    poll = await polling(board, 0)

    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)

    assert board.num_polls == 0


ANSWERING: dict[str, Callable[[Board], None]] = {
    "nudge": lambda board: board.nudge(worker(0)),
    "release": lambda board: board.release(),
    "withdraw": lambda board: board.withdraw(JOB, version=11),
}


@pytest.mark.parametrize("answer_now", ANSWERING.values(), ids=ANSWERING)
async def test_held_polls_can_be_answered(
    board: Board, answer_now: Callable[[Board], None]
) -> None:
    poll = await polling(board, 0)

    answer_now(board)

    await answered(poll)


async def test_news_that_are_older_than_what_was_told_are_ignored(board: Board) -> None:
    board.publish(job(world("0-2", world_number=3)), version=12)

    board.publish(job(world("0-2", world_number=2)), version=11)

    assert world_number(board.answer(worker(0))) == 3


async def test_pods_change_without_a_new_version_of_the_job(board: Board) -> None:
    board.publish(job(world("0-2"), pods={0: peer(0)}), version=10)

    assert board.answer(worker(1)) is None
    assert board.answer(worker(0)) is not None


async def test_a_deleted_job_is_remembered_as_gone(board: Board) -> None:
    board.withdraw(JOB, version=20)

    assert board.is_gone(JOB)
    assert not board.is_gone(Key("team", "unknown"))
    assert board.answer(worker(0)) is None
    board.publish(job(world("0-2")), version=19)  # from a cache that is behind
    assert board.is_gone(JOB)


async def test_a_job_made_anew_is_another_one(board: Board) -> None:
    board.withdraw(JOB, version=20)

    board.publish(job(uid="another", pods=1), version=21)
    board.withdraw(JOB, version=20)  # the deletion of the first one, seen late

    assert not board.is_gone(JOB)
    assert board.place(worker(0)) == WorkerRef("another", 0, "pod-uid-0")


async def test_the_place_of_a_pod(board: Board) -> None:
    assert board.place(worker(2)) == WorkerRef(UID, 2, "pod-uid-2")
    assert board.place(worker(77)) is None
    assert board.place(worker(0, job="other")) is None


async def test_two_replicas_tell_the_same() -> None:
    boards = Board(KEY), Board(KEY)
    for board in boards:
        board.publish(job(world("0-2", is_active=False, state_holders="1,3"), pods=9), version=10)

    for worker_id in range(9):
        assert boards[0].answer(worker(worker_id)) == boards[1].answer(worker(worker_id))


async def test_deleted_jobs_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spotrun.agents.long_poll._REMEMBERED_GONE", 3)
    board = Board(KEY)

    for number in range(10):
        board.withdraw(Key("team", f"job-{number}"), version=1)

    assert [board.is_gone(Key("team", f"job-{n}")) for n in (6, 7, 9)] == [False, True, True]


async def test_a_new_reign_begins_with_an_empty_board(board: Board) -> None:
    board.publish(job(name="other"), version=5)
    board.withdraw(OTHER, version=6)
    poll = await polling(board, 0)

    board.forget()

    assert await answered(poll) is None
    assert list(board.jobs) == []
    assert board.place(worker(0)) is None
    assert not board.is_gone(OTHER)
    assert board.is_unseen(JOB), "not even which jobs there are is known"


async def test_each_job_is_unseen_until_it_was_looked_at(board: Board) -> None:
    board.forget()
    board.expect([JOB, OTHER])
    unseen = [key for key in (JOB, OTHER, Key("team", "none")) if board.is_unseen(key)]
    assert unseen == [JOB, OTHER]

    # The version that the former reign saw is no measure: it may have been that of another job.
    board.publish(job(pods=1), version=1)
    assert board.place(worker(0)) == WorkerRef(UID, 0, "pod-uid-0")
    board.looked_at(OTHER)
    assert not board.is_unseen(OTHER)
