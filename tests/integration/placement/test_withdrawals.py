"""A worker is taken back only while it has no node, whatever happens at the same moment."""

from typing import Any

from spotrun.act.errors import SOON_SECONDS
from spotrun.api.names import Reason
from spotrun.state.actions import Decision, Withdraw
from spotrun.state.snapshot import JobSnapshot
from tests.faults.proxy import FaultProxy
from tests.faults.rules import Rule
from tests.integration.operator_act.helpers import Hand, Scripts, Space

NOWHERE = {"nodeSelector": {"no": "such-node"}}


def template(**pod: Any) -> dict[str, Any]:
    container = {"name": "trainer", "image": "image", "args": ["train.py"]}
    return {"spec": {"containers": [container], **pod}}


def waits(job: JobSnapshot) -> bool:
    return any(worker.pod.unschedulable for worker in job.workers)


def withdraw(job: JobSnapshot) -> Decision:
    pod = job.workers[0].pod
    action = Withdraw(0, pod.uid, pod.version, Reason.BETTER_POOL, "for the test")
    return Decision(job.status, (action,))


async def test_a_worker_that_waits_is_taken_back_settled_and_made_anew(
    hand: Hand, space: Space
) -> None:
    await space.create_job(template=template(**NOWHERE))
    await hand.turn()
    seen = await hand.turn_until(waits)

    await hand.executor.carry_out(seen, withdraw(seen), hand.memory)

    job = await hand.turn_until(lambda job: [w.worker_id for w in job.workers] == [1])
    assert (str(job.status.settled), job.status.next_worker_id) == ("0", 2)
    assert hand.executor.writes["withdraw"] == 1


async def test_a_worker_that_was_bound_meanwhile_stays(
    hand: Hand, space: Space, scripts: Scripts
) -> None:
    await space.create_job()
    bound = await hand.turn_until(lambda job: any(w.pod.node for w in job.workers))
    pod = bound.workers[0].pod
    before = str(int(pod.version) - 1)  # what was decided upon, when it had no node yet
    action = Withdraw(0, pod.uid, before, Reason.BETTER_POOL, "for the test")

    outcome = await hand.executor.carry_out(bound, Decision(bound.status, (action,)), hand.memory)

    (kept,) = await space.pods()
    assert "deletionTimestamp" not in kept["metadata"]
    assert outcome.wake_after_seconds == SOON_SECONDS


async def test_an_operator_that_dies_in_between_leaves_nothing_unsettled(
    hand: Hand, space: Space, proxy: FaultProxy
) -> None:
    await space.create_job(template=template(**NOWHERE))
    await hand.turn()
    seen = await hand.turn_until(waits)
    proxy.inject(Rule("lose_answer", verb="delete", path="/pods/"))

    await hand.executor.carry_out(seen, withdraw(seen), hand.memory)

    job = await hand.turn_until(lambda job: [w.worker_id for w in job.workers] == [1])
    assert str(job.status.settled) == "0"
