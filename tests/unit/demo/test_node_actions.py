from dataclasses import replace

import pytest

from demo.market import POOLS, NewNode, NodeRequirement
from demo.node_actions import (
    BOOT_SECONDS,
    NOTICE_SECONDS,
    OBJECT_REMOVAL_SECONDS,
    Action,
    Done,
    Join,
    Notice,
    PowerCut,
    RemoveNodeObject,
    TakeBack,
    has_happened,
    next_action,
)
from demo.scene import Scene, Worker
from tests.unit.demo.scenes import TRAINING, A, B, C, at_step, with_worker, without_workers

SPOT_A, SPOT_B, _ = POOLS
ZONE_B = NodeRequirement("topology.kubernetes.io/zone", "In", ("us-east-1b",))
WAITING = Worker(3, "job-x-3", "Pending")
LEAVING = replace(TRAINING, nodes=(A, replace(B, is_leaving=True), C))

NOTICED = (Done(20.0, Notice("spot-b-1")),)
JOINED = (*NOTICED, Done(24.0, Join(NewNode("spot-a-2", SPOT_A))))
TAKEN = (*JOINED, Done(40.0, TakeBack("spot-b-1")))
CUT = (*TAKEN, Done(60.0, PowerCut("spot-a-1")))


@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        pytest.param(at_step(149), None, id="it is too early"),
        pytest.param(at_step(150), Notice("spot-b-1"), id="of two spot nodes the higher rank's"),
        pytest.param(at_step(150, checkpoint=None), None, id="there is no checkpoint"),
        pytest.param(
            at_step(300, checkpoint=None), Notice("spot-b-1"), id="there will be no checkpoint"
        ),
        pytest.param(
            at_step(150, without_workers(TRAINING, [1])), None, id="not everybody trains yet"
        ),
        pytest.param(
            at_step(150, replace(TRAINING, nodes=(replace(A, capacity="on-demand"), C, B))),
            Notice("spot-b-1"),
            id="on-demand nodes get no notice",
        ),
        pytest.param(at_step(150, phase="Succeeded"), None, id="the job is over"),
        pytest.param(at_step(45, total_steps=None), Notice("spot-b-1"), id="the end is unknown"),
        pytest.param(replace(TRAINING, step=None), None, id="no step was done yet"),
    ],
)
def test_a_spot_node_gets_a_notice_when_all_train(scene: Scene, expected: Action | None) -> None:
    assert expected == next_action(scene, ())


@pytest.mark.parametrize(
    ("scene", "done", "expected"),
    [
        pytest.param(
            with_worker(LEAVING, WAITING, seconds=20.0 + BOOT_SECONDS),
            NOTICED,
            Join(NewNode("spot-a-2", SPOT_A)),
            id="in the zone that has room, under a new name",
        ),
        pytest.param(
            with_worker(LEAVING, WAITING, seconds=19.9 + BOOT_SECONDS),
            NOTICED,
            None,
            id="not at once",
        ),
        pytest.param(
            with_worker(LEAVING, replace(WAITING, terms=((ZONE_B,),)), seconds=60.0),
            NOTICED,
            Join(NewNode("spot-b-2", SPOT_B)),
            id="where the worker may run",
        ),
        pytest.param(replace(LEAVING, seconds=60.0), NOTICED, None, id="only if one is needed"),
        pytest.param(with_worker(LEAVING, WAITING, seconds=60.0), JOINED, None, id="one for each"),
        pytest.param(
            with_worker(TRAINING, WAITING, seconds=90.0), (), None, id="only after a loss"
        ),
        pytest.param(
            with_worker(TRAINING, WAITING, seconds=64.0),
            CUT,
            Join(NewNode("spot-b-2", SPOT_B)),
            id="after the second loss as well",
        ),
        pytest.param(
            with_worker(LEAVING, replace(WAITING, is_removed=True), seconds=60.0),
            NOTICED,
            None,
            id="not for a worker that is being removed",
        ),
    ],
)
def test_a_node_joins_where_a_worker_waits(
    scene: Scene, done: tuple[Done, ...], expected: Action | None
) -> None:
    assert expected == next_action(scene, done)


@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        pytest.param(LEAVING, None, id="not while its worker trains"),
        pytest.param(without_workers(LEAVING, [1]), TakeBack("spot-b-1"), id="empty"),
        pytest.param(
            replace(LEAVING, seconds=20.0 + NOTICE_SECONDS), TakeBack("spot-b-1"), id="time is up"
        ),
    ],
)
def test_the_node_under_notice_is_taken_back(scene: Scene, expected: Action | None) -> None:
    assert expected == next_action(scene, JOINED)


@pytest.mark.parametrize(
    ("scene", "done", "expected"),
    [
        pytest.param(at_step(500), TAKEN, PowerCut("spot-b-1"), id="everybody trains again"),
        pytest.param(at_step(499), TAKEN, None, id="it is too early"),
        pytest.param(at_step(900, LEAVING), JOINED, None, id="the first node is still there"),
        pytest.param(
            at_step(749, without_workers(TRAINING, [1])), TAKEN, None, id="one is not back yet"
        ),
        pytest.param(
            at_step(750, without_workers(TRAINING, [1])),
            TAKEN,
            PowerCut("spot-a-1"),
            id="one is not back, but the job will soon be over",
        ),
        pytest.param(
            at_step(900, without_workers(TRAINING, [0, 1])), TAKEN, None, id="no spot node is left"
        ),
        pytest.param(
            replace(TRAINING, seconds=60.0 + OBJECT_REMOVAL_SECONDS - 0.1), CUT, None, id="dead"
        ),
        pytest.param(
            replace(TRAINING, seconds=60.0 + OBJECT_REMOVAL_SECONDS),
            CUT,
            RemoveNodeObject("spot-a-1"),
            id="its object is removed",
        ),
        pytest.param(
            at_step(990, seconds=99.0),
            (*CUT, Done(70.0, RemoveNodeObject("spot-a-1"))),
            None,
            id="all is done",
        ),
    ],
)
def test_then_another_loses_its_power(
    scene: Scene, done: tuple[Done, ...], expected: Action | None
) -> None:
    assert expected == next_action(scene, done)


def test_the_story_is_told_when_both_nodes_are_lost() -> None:
    assert [has_happened(done) for done in ((), NOTICED, TAKEN, CUT)] == [False, False, False, True]
