"""The performance: a job runs, things befall its nodes, and everything is shown."""

from collections.abc import Sequence
from dataclasses import dataclass

from demo import story
from demo.news import befalls
from demo.observe import Observer
from demo.scene import Scene
from demo.screens import Screen
from demo.stage import Stage
from demo.story import Act, Bury, Done, Join, Notice, PowerCut, TakeBack
from demo.summary import Sighting
from devcluster.notices import Dialect

PATIENCE_SECONDS = 180.0
"""Without any news, a step being news, the job is stuck; a start on a busy machine takes 60 s."""
_FRAME_SECONDS = 0.25


class StuckError(Exception):
    """Nothing happens any more; the message says since when and where."""

    def __init__(self, scene: Scene) -> None:
        where = f"the job is {scene.phase or 'not known to the operator'}"
        why = scene.message or "without a word"
        super().__init__(
            f"nothing has happened for {PATIENCE_SECONDS:.0f} s: {where}, {why}. What logs say is "
            "above; if that is nothing, the machine may be too busy: try again"
        )
        self.scene = scene


@dataclass(frozen=True)
class Outcome:
    """All that is needed to sum up."""

    scene: Scene  # the last one
    steps: Sequence[Sighting]
    done: tuple[Done, ...]

    @property
    def is_success(self) -> bool:
        """Whether the job succeeded although everything befell it."""
        return self.scene.phase == "Succeeded" and story.has_happened(self.done)


async def perform(stage: Stage, screen: Screen) -> Outcome:
    """Apply the job and let things befall it until it has ended; raises StuckError."""
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
            act = story.next_act(scene, done)
            if act is not None:
                done = (*done, Done(scene.seconds, act))
                screen.tell(befalls(act))
                await _carry_out(stage, act)


async def _carry_out(stage: Stage, act: Act) -> None:
    match act:
        case Notice(node):
            await stage.nodes[node].notice(Dialect.KARPENTER_SPOT, story.NOTICE_SECONDS)
        case PowerCut(node):
            await stage.nodes[node].vanish()
        case TakeBack(node) | Bury(node):
            await stage.nodes.remove(node)
        case Join(node):
            await stage.add_node(node)


class _Patience:
    """Ends when a job has made no news for long."""

    def __init__(self) -> None:
        self._last: object = None
        self._since = 0.0

    def look(self, scene: Scene) -> None:
        news = (scene.phase, scene.message, scene.step, scene.generation, scene.workers)
        if news != self._last:
            self._last, self._since = news, scene.seconds
        elif scene.seconds - self._since > PATIENCE_SECONDS:
            raise StuckError(scene)
