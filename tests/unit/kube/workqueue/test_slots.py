"""Slots that groups take in turns, and that nobody keeps who has left."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from spotrun.kube.workqueue.slots import Slots


async def settle() -> None:
    """Let all tasks run until each waits for something."""
    for _ in range(20):
        await asyncio.sleep(0)


class Users:
    """Tasks that hold a slot until they are told to leave."""

    def __init__(self, number: int, slots: Slots | None = None) -> None:
        self.slots = slots or Slots(number)
        self.came = list[str]()
        self.may_leave = dict[str, asyncio.Event]()
        self.tasks = dict[str, asyncio.Task[None]]()

    async def enter(self, *names: str) -> None:
        """Ask for a slot, in this order; a name begins with its group."""
        for name in names:
            self.may_leave[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._use(name))
        await settle()

    async def leave(self, *names: str) -> None:
        for name in names:
            self.may_leave[name].set()
        await settle()

    async def give_up(self, *names: str) -> None:
        for name in names:
            self.tasks[name].cancel()
        await settle()

    async def _use(self, name: str) -> None:
        async with self.slots.one(name[0]):
            self.came.append(name)
            await self.may_leave[name].wait()


async def test_groups_take_turns_and_in_a_group_the_first_is_first() -> None:
    users = Users(1)
    await users.enter("a1", "a2", "a3", "b1", "c1", "b2")
    for name in ("a1", "a2", "b1", "c1", "a3", "b2"):
        assert users.came[-1] == name
        await users.leave(name)


async def test_as_many_hold_one_as_there_are() -> None:
    users = Users(2)
    await users.enter("a1", "a2", "a3")
    assert users.came == ["a1", "a2"]
    await users.leave("a2")
    assert users.came == ["a1", "a2", "a3"]


async def test_who_gives_up_while_waiting_or_holding_keeps_none() -> None:
    users = Users(1)
    await users.enter("a1", "a2", "b1")
    await users.give_up("a2", "a1")
    assert users.came == ["a1", "b1"]
    await users.give_up("b1")
    await users.enter("c1")
    assert users.came[-1] == "c1"


async def test_a_slot_that_came_to_who_just_gave_up_goes_to_the_next() -> None:
    users = Users(1)
    await users.enter("a1", "a2", "b1")
    users.may_leave["a1"].set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await users.give_up("a2")
    assert users.came[-1] == "b1"


class Ordered:
    """Three slots for those who come first, three for the others, of which one is theirs always."""

    def __init__(self) -> None:
        self.first = Users(3)
        self.then = Users(3, Slots(3, after=self.first.slots, meanwhile=1))


async def test_those_who_come_first_leave_the_others_a_few_slots_while_they_wait() -> None:
    both = Ordered()
    await both.first.enter("a1", "a2", "a3", "a4", "a5")
    await both.then.enter("b1", "b2", "b3")
    assert both.then.came == ["b1"]
    await both.then.leave("b1")
    assert both.then.came == ["b1", "b2"], "they are slower, but never stop"
    await both.first.leave("a1")
    assert both.then.came == ["b1", "b2"], "one still waits"
    await both.first.leave("a2")
    assert both.first.came == ["a1", "a2", "a3", "a4", "a5"]
    assert both.then.came == ["b1", "b2", "b3"], "nobody waits any more"


async def test_who_holds_a_slot_keeps_it_when_others_come_first() -> None:
    both = Ordered()
    await both.then.enter("b1", "b2", "b3")
    await both.first.enter("a1", "a2", "a3", "a4")
    assert both.then.came == ["b1", "b2", "b3"]
    await both.then.leave("b1", "b2")
    await both.then.enter("b4")
    assert both.then.came[-1] == "b3"
    await both.first.give_up("a4")
    await both.first.leave("a1")
    assert both.then.came[-1] == "b4"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), max_size=40))
def test_no_slot_is_lost_whatever_order_they_come_leave_and_give_up_in(
    steps: list[tuple[str, int]],
) -> None:
    async def play() -> None:
        users = Users(2)
        for number, (group, what) in enumerate(steps):
            if what < 2 or not users.came:
                await users.enter(f"{group}{number}")
            elif what < 4:
                await users.leave(users.came[-1])
            else:
                await users.give_up(users.came[number % len(users.came)])
        everybody = list(users.tasks)
        await users.give_up(*everybody)
        before = len(users.came)
        await users.enter("x1", "y1", "z1")
        assert users.came[before:] == ["x1", "y1"]
        await users.give_up("x1", "y1", "z1")

    asyncio.run(play())
