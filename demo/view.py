"""The live view: a scene and a diary as objects that rich draws. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from demo.news import cost, names
from demo.scene import Node, Scene, Worker

_COLOURS = {
    "Running": "green",
    "Succeeded": "bold green",
    "Recovering": "yellow",
    "Failed": "bold red",
}
_DIARY_LINES = 9
_BAR_WIDTH = 40
Entry = tuple[float, str]


def clock(seconds: float) -> str:
    """`1:05`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def live(scene: Scene, diary: Sequence[Entry], seconds: float, now: datetime) -> RenderableType:
    """Draw everything that is shown at one moment, some seconds after the beginning."""
    parts = [_job(scene), Text(), _nodes(scene, now), Text(), _diary(diary)]
    title = f"spotrun demo  {clock(seconds)}"
    said = "real Kubernetes API, operator and training; nodes are processes, prices are made up"
    return Panel(Group(*parts), title=title, subtitle=said, padding=(1, 2))


def doing(worker: Worker, scene: Scene) -> str:
    """Say what a worker does, as shown by its pod and the world."""
    node = scene.node(worker.node)
    if worker.is_removed:
        return "is being removed"
    if worker.phase in {"Succeeded", "Failed"}:
        return "has ended"
    if worker.node is None:
        return "waits for a node"
    if worker.phase == "Pending":
        return "starts"
    leaving = "; to be replaced" if node and node.is_leaving else ""
    if worker.rank is not None:
        return f"trains, rank {worker.rank}{leaving}"
    return "gets ready to train"


def state(node: Node, now: datetime) -> str:
    """Say the state of a node, as shown by its object."""
    if node.is_leaving:
        left = max((node.ends_at - now).total_seconds(), 0.0) if node.ends_at else None
        return "leaves" + ("" if left is None else f" in {left:.0f} s")
    return "ready" if node.is_ready else "not ready"


def _job(scene: Scene) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    phase = Text(scene.phase or "-", style=_COLOURS.get(scene.phase, "cyan"))
    grid.add_row("job", phase.append(f"  {scene.reason}", style="dim"), _short(scene.message))
    grid.add_row("world", str(scene.world or "-"), _world(scene))
    grid.add_row("step", _step(scene), _bar(scene))
    grid.add_row("cost", cost(scene), "")
    return grid


def _world(scene: Scene) -> str:
    members = f"workers {names(scene.members)}" if scene.members else "no worker trains"
    if scene.prepared is None:
        return members
    return f"{members}; world {scene.prepared} is being prepared"


def _step(scene: Scene) -> str:
    if scene.step is None:
        return "-"
    of = f" of {scene.total_steps}" if scene.total_steps else ""
    loss = f"  loss {scene.step.loss:.4f}" if scene.step.loss is not None else ""
    return f"{scene.step.number}{of}{loss}"


def _bar(scene: Scene) -> RenderableType:
    if scene.step is None or not scene.total_steps:
        return ""
    return ProgressBar(scene.total_steps, scene.step.number, width=_BAR_WIDTH)


def _nodes(scene: Scene, now: datetime) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("NODE", "CAPACITY", "ZONE", "$/H (MADE UP)", "STATE", "WORKER", "DOING"):
        table.add_column(name)
    for node in scene.nodes:
        style = "yellow" if node.is_leaving else None if node.is_ready else "red"
        facts = (node.name, node.capacity, node.zone, node.usd_per_hour, state(node, now))
        workers = scene.workers_on(node.name)
        first = workers[:1]
        table.add_row(*facts, *_cells(first, scene), style=style)
        for worker in workers[1:]:
            table.add_row(*[""] * len(facts), *_cells((worker,), scene), style=style)
    here = {node.name for node in scene.nodes}
    for worker in scene.workers:
        if worker.node not in here:
            lost = f"{worker.node} (gone)" if worker.node else "-"
            table.add_row(lost, "", "", "", "", *_cells((worker,), scene), style="dim")
    return table


def _cells(workers: Sequence[Worker], scene: Scene) -> tuple[str, str]:
    if not workers:
        return "-", ""
    (worker,) = workers
    return str(worker.worker_id), doing(worker, scene)


def _diary(diary: Sequence[Entry]) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    for seconds, text in diary[-_DIARY_LINES:]:
        grid.add_row(Text(clock(seconds), style="dim"), Text(text, style=_accent(text)))
    return grid


def _accent(text: str) -> str:
    return "bold yellow" if text.startswith(("SPOT NOTICE", "POWER CUT")) else ""


def _short(message: str, most: int = 60) -> str:
    return message if len(message) <= most else f"{message[: most - 3]}..."


def utc_now() -> datetime:
    """Return the time with which notices are compared."""
    return datetime.now(UTC)
