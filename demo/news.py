"""The news between two moments, as sentences for the plain output and the diary. Pure."""

from collections.abc import Iterator

from demo.market import NewNode
from demo.node_actions import Action, Join, Notice, PowerCut, RemoveNodeObject, TakeBack
from demo.scene import Scene, Worker

_WORLD_FORMED = "Training"
"""Events of the operator with this reason repeat the lines about worlds."""


def news(before: Scene, now: Scene) -> list[str]:
    """Say what has changed."""
    return [
        *_phase(before, now),
        *_workers(before, now),
        *_world(before, now),
        *_events(before, now),
    ]


def describe_action(action: Action) -> str:
    """Say what the demo does to a node, with capitals for losses."""
    match action:
        case Notice(node):
            return f"SPOT NOTICE: node {node} will be taken back in two minutes"
        case TakeBack(node):
            return f"node {node} is taken back"
        case PowerCut(node):
            return f"POWER CUT: node {node} is gone without a notice"
        case RemoveNodeObject(node):
            return f"the cloud deletes the object of node {node}, as it does for dead machines"
        case Join(node):
            return f"node {node.name} joins: {describe(node)}"


def describe(node: NewNode) -> str:
    """Pool, zone and price of a node."""
    pool = node.pool
    return f"{pool.capacity}, {pool.zone}, ${pool.usd_per_hour}/h (made up)"


def ticker(scene: Scene) -> str:
    """Return the progress of the training in one line."""
    if scene.step is None:
        return f"{scene.phase or 'the job waits'}: {scene.message or 'no worker yet'}"
    of = f" of {scene.total_steps}" if scene.total_steps else ""
    loss = f", loss {scene.step.loss:.4g}" if scene.step.loss is not None else ""
    size = f", world {scene.world} with {len(scene.members)} workers" if scene.members else ""
    return f"step {scene.step.number}{of}{loss}{size}; cost {cost(scene)}"


def cost(scene: Scene) -> str:
    """Say the job's cost, as the operator has published it."""
    if scene.usd is None:
        return "not metered yet"
    rate = f", ${scene.usd_per_hour}/h now" if scene.usd_per_hour else ""
    return f"${scene.usd}{rate}"


def names(worker_ids: tuple[int, ...]) -> str:
    """`0`, `0 and 1`, `0, 1 and 2`."""
    words = [str(worker_id) for worker_id in worker_ids]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _phase(before: Scene, now: Scene) -> Iterator[str]:
    if now.phase and now.phase != before.phase:
        yield f"the job is {now.phase} ({now.reason}): {now.message}"


def _workers(before: Scene, now: Scene) -> Iterator[str]:
    known = {worker.worker_id: worker for worker in before.workers}
    for worker in now.workers:
        yield from _worker(known.get(worker.worker_id), worker)
    left = {worker.worker_id for worker in now.workers}
    gone = tuple(sorted(known.keys() - left))
    if gone:
        are = "worker {} is gone" if len(gone) == 1 else "workers {} are gone"
        yield are.format(names(gone))


def _worker(before: Worker | None, now: Worker) -> Iterator[str]:
    if before is None:
        yield f"worker {now.worker_id} is created"
    if now.node is not None and (before is None or before.node is None):
        yield f"worker {now.worker_id} gets node {now.node}"
    if now.is_removed and (before is None or not before.is_removed):
        yield f"worker {now.worker_id} is being removed"


def _world(before: Scene, now: Scene) -> Iterator[str]:
    if now.world != before.world and now.members:
        why = f": {now.why}" if now.why else ""
        yield f"world {now.world}, workers {names(now.members)} in rank order{why}"


def _events(before: Scene, now: Scene) -> Iterator[str]:
    for event in now.events[len(before.events) :]:
        if not (event.about == "TrainingJob" and event.text.startswith(f"{_WORLD_FORMED}: ")):
            yield f"event about the {event.about}: {event.text}"
