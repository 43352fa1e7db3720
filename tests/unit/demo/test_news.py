from dataclasses import replace

import pytest

from demo.market import POOLS, NewNode
from demo.news import describe_action, names, news, ticker
from demo.node_actions import Action, Join, Notice, PowerCut, RemoveNodeObject, TakeBack
from demo.scene import ClusterEvent, Scene, Step, Worker
from tests.unit.demo.scenes import TRAINING, at_step, with_worker, without_workers

WAITING = with_worker(TRAINING, Worker(3, "job-x-3", "Pending"))


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(TRAINING, at_step(99), [], id="steps are no news"),
        pytest.param(
            TRAINING, WAITING, ["worker 3 is created"], id="a worker that waits for a node"
        ),
        pytest.param(
            WAITING,
            with_worker(TRAINING, Worker(3, "job-x-3", "Pending", "spot-a-2")),
            ["worker 3 gets node spot-a-2"],
            id="it gets one",
        ),
        pytest.param(
            TRAINING,
            without_workers(TRAINING, [1], world=2, why="1 of 3 workers are gone"),
            ["worker 1 is gone", "world 2, workers 2 and 0 in rank order: 1 of 3 workers are gone"],
            id="a loss",
        ),
        pytest.param(
            TRAINING,
            replace(TRAINING, phase="Succeeded", reason="Completed", message="it is complete"),
            ["the job is Succeeded (Completed): it is complete"],
            id="the end",
        ),
        pytest.param(
            TRAINING,
            replace(
                TRAINING,
                events=(
                    ClusterEvent(1.0, "TrainingJob", "Training: world 1: 3 workers"),
                    ClusterEvent(2.0, "TrainingJob", "NodeLost: worker 3 on node spot-a-2"),
                    ClusterEvent(3.0, "Node", "SpotInterrupted: soon"),
                ),
            ),
            [
                "event about the TrainingJob: NodeLost: worker 3 on node spot-a-2",
                "event about the Node: SpotInterrupted: soon",
            ],
            id="events, but not what was said of worlds already",
        ),
    ],
)
def test_what_is_new_is_said_once(before: Scene, now: Scene, expected: list[str]) -> None:
    assert expected == news(before, now)
    assert news(now, now) == []


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Notice("n"), "SPOT NOTICE: node n will be taken back in two minutes"),
        (PowerCut("n"), "POWER CUT: node n is gone without a notice"),
        (TakeBack("n"), "node n is taken back"),
        (RemoveNodeObject("n"), "the cloud deletes the object of node n"),
        (
            Join(NewNode("spot-b-2", POOLS[1])),
            "node spot-b-2 joins: spot, us-east-1b, $0.29/h (made up)",
        ),
    ],
)
def test_every_action_has_words(action: Action, expected: str) -> None:
    assert describe_action(action).startswith(expected)


def test_the_ticker_says_how_far_the_training_is() -> None:
    expected = "step 120 of 1000, loss 3.215, world 1 with 3 workers; cost not metered yet"
    assert expected == ticker(replace(TRAINING, step=Step(120, 3.21543)))


def test_the_ticker_before_the_first_step_says_what_the_job_waits_for() -> None:
    assert ticker(replace(TRAINING, step=None)) == "Running: 3 workers train"
    assert ticker(Scene(0.0)) == "the job waits: no worker yet"


def test_costs_are_told_once_the_operator_states_them() -> None:
    assert ticker(replace(TRAINING, usd="0.0123", usd_per_hour="1.61")).endswith(
        "; cost $0.0123, $1.61/h now"
    )


@pytest.mark.parametrize(
    ("worker_ids", "expected"),
    [((), ""), ((0,), "0"), ((0, 1), "0 and 1"), ((2, 0, 1), "2, 0 and 1")],
)
def test_lists_of_workers_read_well(worker_ids: tuple[int, ...], expected: str) -> None:
    assert expected == names(worker_ids)
