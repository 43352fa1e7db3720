"""An operator that dies before or after any one of its writes leaves the same behind in the end."""

from typing import Any

import pytest

from spotrun.act.protection import BUDGETS, POLICIES
from spotrun.kube.rest.client import Client
from spotrun.observe.kube_objects import TRAINING_JOBS
from spotrun.state.codec import write
from spotrun.state.job_state import JobState
from spotrun.state.names import owned_name
from tests.faults.proxy import FaultProxy
from tests.faults.rules import Rule
from tests.integration.operator_act.helpers import Hand, Some, Space

ANY_WRITE = "create|patch|delete"
# More than either half of the life makes; the last ones strike nothing.
PLANS = range(1, 15)


def lasting(status: JobState) -> dict[str, Any]:
    """The status without times and what hangs on them."""
    content = write(status).manifest()
    conditions = content.pop("conditions", [])
    content.pop("decisions", None)
    return content | {"conditions": {c["type"]: c["status"] for c in conditions}}


async def settle(space: Space, client: Client, hand: Hand) -> tuple[Hand, Any]:
    """Turn until two turns in a row write nothing; an operator whose answer got lost is dead."""
    quiet = 0
    while quiet < 2:
        before = sum(hand.executor.writes.values())
        outcome = await hand.turn()
        hand.clock.ahead_seconds += 60  # no write waits for the pace of refreshes
        if outcome.failure is not None or 0 < outcome.wake_after_seconds < 600:
            hand = Hand(space, client)
            quiet = 0
        else:
            quiet = quiet + 1 if sum(hand.executor.writes.values()) == before else 0
    seen = await hand.look()
    pods = [(w.worker_id, w.pod.metered, w.pod.deleting) for w in seen.workers]
    owned = owned_name(seen.name, seen.uid)
    around = [await space.read(kind, owned) is not None for kind in (BUDGETS, POLICIES)]
    return hand, (lasting(seen.status) | {"workers": None}, pods, around)


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize("fault", ["drop", "lose_answer"])
async def test_dying_at_any_write_changes_nothing_in_the_end(
    direct: Client, client: Client, proxy: FaultProxy, fault: Any
) -> None:
    async def life(name: str, at_start: int = 0, at_end: int = 0) -> tuple[Any, Any, int]:
        struck = 0
        space = await Space.make(direct, name)
        await space.create_job(min=3, max=3, replicas=3)
        hand = Hand(space, client)
        ends = []
        for nth in (at_start, at_end):
            rule = Rule(fault, verb=ANY_WRITE, path=f"/{name}/", nth=nth or 10**6)
            proxy.inject(rule)
            hand, end = await settle(space, client, hand)
            proxy.heal(rule)
            struck += rule.fired
            ends.append(end)
            suspended = {"spec": {"suspend": True}}
            await direct.patch(TRAINING_JOBS, "job", suspended, Some, namespace=name)
        return ends[0], ends[1], struck

    run = f"{fault.replace('_', '-')}-{id(proxy):x}"
    expected = await life(f"{run}-0")
    assert [worker_id for worker_id, *_ in expected[0][1]] == [0, 1, 2]
    assert expected[1][1] == []
    assert expected[1][0]["settled"] == "0-2"
    struck = 0
    for nth in PLANS:
        start, end, fired = await life(f"{run}-{nth}", nth, nth)
        assert (start, end) == expected[:2], f"write {nth}"
        struck += fired
    assert struck >= 15
