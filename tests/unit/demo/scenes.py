"""Hand-made scenes: three workers on three nodes that train, and what may be different."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from demo.scene import Node, Scene, Step, Worker

A = Node("spot-a-1", "us-east-1a", "spot", "0.31")
B = Node("spot-b-1", "us-east-1b", "spot", "0.29")
C = Node("steady-1", "us-east-1a", "on-demand", "1.01")

TRAINING = Scene(
    seconds=20.0,
    phase="Running",
    reason="Training",
    message="3 workers train",
    wanted=3,
    total_steps=1000,
    step=Step(10, 5.5),
    world=1,
    members=(2, 0, 1),
    checkpoint="step-5.g1",
    workers=(
        Worker(0, "job-x-0", "Running", "spot-a-1", rank=1),
        Worker(1, "job-x-1", "Running", "spot-b-1", rank=2),
        Worker(2, "job-x-2", "Running", "steady-1", rank=0),
    ),
    nodes=(A, B, C),
)


def at_step(number: int, scene: Scene = TRAINING, **changes: Any) -> Scene:
    """A scene some steps later."""
    return replace(scene, step=Step(number, 5.5), **changes)


def without_workers(scene: Scene, worker_ids: Iterable[int], **changes: Any) -> Scene:
    """A scene in which these workers are no more."""
    gone = set(worker_ids)
    members = tuple(worker_id for worker_id in scene.members if worker_id not in gone)
    left = (worker for worker in scene.workers if worker.worker_id not in gone)
    workers = tuple(
        replace(
            worker, rank=members.index(worker.worker_id) if worker.worker_id in members else None
        )
        for worker in left
    )
    return replace(scene, members=members, workers=workers, **changes)


def with_worker(scene: Scene, worker: Worker, **changes: Any) -> Scene:
    """A scene with one more worker."""
    return replace(scene, workers=(*scene.workers, worker), **changes)
