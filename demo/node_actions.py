"""The demo's actions on nodes, and their times: a pure plan from the scene and earlier actions.

1. A spot node gets a notice; it is taken away when its worker is gone or the notice has run out.
2. Later another spot node loses its power without a notice; its object is deleted seconds later.
3. Whenever a worker waits for a node, one joins, as an autoscaler would do.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from demo.market import NewNode, replacement
from demo.scene import Node, Scene

NOTICE_SECONDS = 120.0
"""The time between EC2's warning and the end of the node."""
NOTICE_AT = 0.15
"""The share of all steps that are done before the notice, ..."""
LATE_NOTICE_AT = 0.3
"""... or this share, if the job has no checkpoint to continue from until then."""
POWER_CUT_AT = 0.5
LATE_POWER_CUT_AT = 0.75
"""The power is cut at this share of the training even if not all workers are back, because the job
would end otherwise."""
STEPS_IF_UNKNOWN = 300
"""The number of steps that is assumed if the job does not state it."""
BOOT_SECONDS = 2.0
"""The time until a new node joins. A cloud takes a minute, but a viewer would learn nothing from
that."""
OBJECT_REMOVAL_SECONDS = 10.0
"""The time until the object of a node without power is removed; a cloud's controller takes a
minute."""


@dataclass(frozen=True)
class Notice:
    """The platform announces that it will take a node back."""

    node: str


@dataclass(frozen=True)
class TakeBack:
    """The platform takes back a node after its notice."""

    node: str


@dataclass(frozen=True)
class PowerCut:
    """A machine is gone without a notice."""

    node: str


@dataclass(frozen=True)
class RemoveNodeObject:
    """The object of a node without power is deleted."""

    node: str


@dataclass(frozen=True)
class Join:
    """A node is added."""

    node: NewNode


Action = Notice | TakeBack | PowerCut | RemoveNodeObject | Join


@dataclass(frozen=True)
class Done:
    """An action that was done, and its time."""

    seconds: float
    action: Action


def next_action(scene: Scene, done: tuple[Done, ...]) -> Action | None:
    """Return the action that is due now, if any is."""
    if scene.is_over:
        return None
    return _join(scene, done) or _first_loss(scene, done) or _second_loss(scene, done)


def name_of(action: Action) -> str:
    """Return the name of the node that an action is about."""
    return action.node.name if isinstance(action, Join) else action.node


def has_happened(done: Iterable[Done]) -> bool:
    """Whether both nodes are lost."""
    return any(isinstance(one.action, PowerCut) for one in done)  # the last loss


def _first_loss(scene: Scene, done: tuple[Done, ...]) -> Action | None:
    notice = _find(done, Notice)
    if notice is None:
        node = _spot_node(scene)
        at = NOTICE_AT if scene.checkpoint is not None else LATE_NOTICE_AT
        return Notice(node.name) if node and _is_past(scene, at) and scene.is_complete else None
    if _find(done, TakeBack) is not None:
        return None
    name = name_of(notice.action)
    is_up = scene.seconds - notice.seconds >= NOTICE_SECONDS
    return TakeBack(name) if is_up or not scene.workers_on(name) else None


def _second_loss(scene: Scene, done: tuple[Done, ...]) -> Action | None:
    cut = _find(done, PowerCut)
    if cut is not None:
        is_time = scene.seconds - cut.seconds >= OBJECT_REMOVAL_SECONDS
        is_removed = _find(done, RemoveNodeObject) is not None
        return RemoveNodeObject(name_of(cut.action)) if is_time and not is_removed else None
    if _find(done, TakeBack) is None:
        return None
    node = _spot_node(scene)
    at = POWER_CUT_AT if scene.is_complete else LATE_POWER_CUT_AT
    return PowerCut(node.name) if node and _is_past(scene, at) else None


def _join(scene: Scene, done: tuple[Done, ...]) -> Action | None:
    """Return a new node for each lost one, once a worker waits for it."""
    losses = [one for one in done if isinstance(one.action, Notice | PowerCut)]
    num_joined = sum(isinstance(one.action, Join) for one in done)
    waiting = [one for one in scene.workers if one.node is None and not one.is_removed]
    if not waiting or num_joined == len(losses):
        return None
    last = losses[num_joined]
    if scene.seconds - last.seconds < BOOT_SECONDS:
        return None
    used = {node.name for node in scene.nodes} | {name_of(one.action) for one in done}
    return Join(replacement(name_of(last.action), used, waiting[0].terms))


def _spot_node(scene: Scene) -> Node | None:
    """Return a spot node with a worker that trains; of several, the one with the highest rank."""
    members = [worker for worker in scene.workers if worker.rank is not None]
    for worker in sorted(members, key=lambda worker: -(worker.rank or 0)):
        node = scene.node(worker.node)
        if node and node.capacity == "spot" and node.is_ready:
            return node
    return None


def _is_past(scene: Scene, share: float) -> bool:
    total = scene.total_steps or STEPS_IF_UNKNOWN
    return scene.step is not None and scene.step.number >= share * total


def _find(done: Iterable[Done], kind: type[Action]) -> Done | None:
    return next((one for one in done if isinstance(one.action, kind)), None)
