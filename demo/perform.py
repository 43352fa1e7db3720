"""The course of the demo: a job runs, it loses nodes, and everything is shown."""

from collections.abc import Sequence
from dataclasses import dataclass

from demo import node_actions
from demo.news import describe_action
from demo.node_actions import Action, Done, Join, Notice, PowerCut, RemoveNodeObject, TakeBack
from demo.observe import Observer
from demo.scene import Scene
from demo.screens import Screen
from demo.stage import Stage
from demo.summary import Sighting
from devcluster.notices import Dialect

PATIENCE_SECONDS = 180.0
"""A job without a new step for this long is stuck; a start on a busy machine takes 60 s."""
_FRAME_SECONDS = 0.25


class StuckError(Exception):
    """The job makes no progress; the message says for how long, and in which state."""

    def __init__(self, scene: Scene) -> None:
        where = f"the job is {scene.phase or 'not known to the operator'}"
        why = scene.message or "without a message"
        super().__init__(
            f"nothing has happened for {PATIENCE_SECONDS:.0f} s: {where}, {why}. The logs are "
            "above; if they show no error, the machine may be too busy: try again"
        )
        self.scene = scene


@dataclass(frozen=True)
class Outcome:
    """The data for the summary."""

    scene: Scene  # the last one
    steps: Sequence[Sighting]
    done: tuple[Done, ...]

    @property
    def is_success(self) -> bool:
        """Whether the job succeeded although both nodes were lost."""
        return self.scene.phase == "Succeeded" and node_actions.has_happened(self.done)


async def perform(stage: Stage, screen: Screen) -> Outcome:
    """Apply the job and take away nodes until it has ended; raises StuckError."""
    access, client = stage.cluster.admin, stage.nodes.client
    async with Observer(access, client, stage.job) as observer:
        screen.tell(f"applying the TrainingJob {stage.job.name}")
        await stage.submit()
        done: tuple[Done, ...] = ()
        patience = _Patience()
        while True:
            await observer.news(_FRAME_SECONDS)
            stage.operator.check()
            scene = observer.scene()
            screen.show(scene)
            patience.look(scene)
            if scene.is_over:
                return Outcome(scene, observer.steps, done)
            action = node_actions.next_action(scene, done)
            if action is not None:
                done = (*done, Done(scene.seconds, action))
                screen.tell(describe_action(action))
                await _carry_out(stage, action)


async def _carry_out(stage: Stage, action: Action) -> None:
    match action:
        case Notice(node):
            await stage.nodes[node].notice(Dialect.KARPENTER_SPOT, node_actions.NOTICE_SECONDS)
        case PowerCut(node):
            await stage.nodes[node].vanish()
        case TakeBack(node) | RemoveNodeObject(node):
            await stage.nodes.remove(node)
        case Join(node):
            await stage.add_node(node)


class _Patience:
    """Raises StuckError if a job has shown no change for long."""

    def __init__(self) -> None:
        self._last: object = None
        self._since = 0.0

    def look(self, scene: Scene) -> None:
        news = (scene.phase, scene.message, scene.step, scene.world, scene.workers)
        if news != self._last:
            self._last, self._since = news, scene.seconds
        elif scene.seconds - self._since > PATIENCE_SECONDS:
            raise StuckError(scene)
