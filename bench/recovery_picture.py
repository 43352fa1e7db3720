"""Draws what bench/recovery.py saw of one event: the picture in docs/.

Run as
    .venv/bin/python bench/recovery.py --only node_lost_stall --repeats 1 --keep FOLDER
    .venv/bin/python bench/recovery_picture.py FOLDER/NODE_LOST-3-0-0 docs/node-lost.svg
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from bench.recovery import IT_HAPPENS, NOTES_FILE
from bench.recovery_stock import trace_of
from devcluster.argument_types import existing_folder, writable_file
from spotrun_trainer.telemetry import timeline

BEFORE_SECONDS, AFTER_SECONDS = 1.0, 0.9  # of the first step that all have made again
WIDTH, LEFT, ROW, BAR, FOOT = 960, 120, 46, 22, 40
STYLE = """
  text { font: 12px sans-serif; fill: #24292f; }
  .small { font-size: 10px; fill: #57606a; }
  .step { fill: #54aeff; stroke: white; }
  .dropped { fill: #ffd8b5; stroke: #bc4c00; stroke-dasharray: 3 2; }
  .lost { fill: #d0d7de; stroke: white; }
  .grid { stroke: #d0d7de; }
  .kill { stroke: #cf222e; stroke-width: 2; }
  .word { stroke: #8250df; }
"""


@dataclass(frozen=True)
class Bar:
    """A time that a process spent with one thing."""

    began: float
    ended: float
    kind: str  # a class of STYLE
    label: str


@dataclass(frozen=True)
class Moment:
    """A moment at which a thing was said, or noticed."""

    at: float
    kind: str
    label: str


@dataclass(frozen=True)
class Lane:
    """One line of the picture."""

    name: str
    bars: Sequence[Bar] = ()
    moments: Sequence[Moment] = ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", type=existing_folder, help="what bench/recovery.py --keep has left"
    )
    parser.add_argument("picture", type=writable_file)
    arguments = parser.parse_args()
    arguments.picture.write_text(draw(*read(arguments.folder)))


def read(folder: Path) -> tuple[list[Lane], float, float]:
    """The lanes, with 0 at the event, and from when to when they are to be seen."""
    lines = trace_of(folder)
    said = [json.loads(line) for line in (folder / NOTES_FILE).read_text().splitlines()]
    lost_at = next(line["t"] for line in said if line["said"] == IT_HAPPENS)
    size = max(line["size"] for line in lines if line["time"] < lost_at)
    after = [line for line in lines if line["time"] > lost_at and line["size"] < size]
    back_at = max(min(x["time"] for x in after if x["pid"] == one) for one in _pids(after))
    marks = [mark for file in sorted(folder.glob("phases/*.jsonl")) for mark in timeline.read(file)]
    lanes = [
        _lane(name, [line for line in lines if line["pid"] == pid], marks, lost_at)
        for name, pid in _names(lines, lost_at)
    ]
    words = [
        Moment(line["t"] - lost_at, "word", line["said"])
        for line in said
        if 0 < line["t"] - lost_at < back_at - lost_at
    ]
    return (
        [*lanes, Lane("operator", moments=words)],
        -BEFORE_SECONDS,
        back_at - lost_at + AFTER_SECONDS,
    )


def _names(lines: Sequence[dict[str, Any]], lost_at: float) -> list[tuple[str, int]]:
    rank_of = {line["pid"]: line["rank"] for line in lines if line["time"] < lost_at}
    return sorted((f"rank {rank}", pid) for pid, rank in rank_of.items())


def _pids(lines: Sequence[dict[str, Any]]) -> set[int]:
    return {line["pid"] for line in lines}


def _lane(
    name: str, lines: Sequence[dict[str, Any]], marks: Sequence[dict[str, Any]], lost_at: float
) -> Lane:
    """A process: its steps, and the one that it dropped when it noticed."""
    pid = lines[0]["pid"]
    ends = [(line["time"] - lost_at, line["step"]) for line in lines]
    own = {
        mark["mark"]: mark["t"] - lost_at
        for mark in marks
        if mark.get("pid") == pid
        and mark.get("mark") in {"broken", "group"}
        and mark["t"] > lost_at
    }
    bars = list[Bar]()
    for (began, _), (ended, step) in pairwise(ends):
        broken = own.get("broken", ended)
        if began < broken < ended:
            bars.append(Bar(began, broken, "dropped", f"step {step}, dropped"))
            bars.append(Bar(own.get("group", broken), ended, "step", f"step {step}"))
        else:
            bars.append(Bar(began, ended, "step", f"step {step}"))
    moments = [
        Moment(at, "word", {"broken": "noticed", "group": "met"}[mark]) for mark, at in own.items()
    ]
    if ends[-1][0] < 0:
        bars.append(Bar(ends[-1][0], 0.0, "lost", f"step {ends[-1][1] + 1}"))
        moments = [Moment(0.0, "kill", "killed")]
    return Lane(name, bars, moments)


def draw(lanes: Sequence[Lane], since: float, until: float) -> str:
    height = ROW * len(lanes) + FOOT + 12 * max(len(lane.moments) for lane in lanes)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
            f"<style>{STYLE}</style>",
            *_grid(since, until, height),
            *(
                part
                for number, lane in enumerate(lanes)
                for part in _row(lane, 10 + ROW * number, since, until)
            ),
            "</svg>\n",
        ]
    )


def _grid(since: float, until: float, height: int) -> Iterator[str]:
    """A line for each half second, of which 0 is the event."""
    first, last = int(since * 2), int(until * 2)
    for half in range(first, last + 1):
        x, seconds = _x(half / 2, since, until), f"{half / 2:+.1f} s"
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="4" y2="{height - FOOT + 8}"/>'
        yield f'<text class="small" x="{x - 14}" y="{height - 18}">{seconds}</text>'


def _row(lane: Lane, y: int, since: float, until: float) -> Iterator[str]:
    yield f'<text x="8" y="{y + 16}">{escape(lane.name)}</text>'
    for bar in lane.bars:
        began, ended = max(bar.began, since), min(bar.ended, until)
        if began >= ended:
            continue
        x, right = _x(began, since, until), _x(ended, since, until)
        yield (
            f'<rect class="{bar.kind}" x="{x}" y="{y}" width="{right - x:.1f}" height="{BAR}">'
            f"<title>{escape(bar.label)}: {bar.ended - bar.began:.3f} s</title></rect>"
        )
        if right - x > 8 * len(bar.label):
            yield f'<text class="small" x="{x + 4}" y="{y + 15}">{escape(bar.label)}</text>'
    for number, moment in enumerate(lane.moments):
        x, down = _x(moment.at, since, until), y + BAR + 11 * (number + 1)
        yield f'<line class="{moment.kind}" x1="{x}" x2="{x}" y1="{y - 3}" y2="{down}"/>'
        said = f"{moment.at:+.2f} s {moment.label}" if moment.at else moment.label
        yield f'<text class="small" x="{x + 3}" y="{down}">{escape(said)}</text>'


def _x(at: float, since: float, until: float) -> float:
    return round(LEFT + (at - since) / (until - since) * (WIDTH - LEFT - 10), 1)


if __name__ == "__main__":
    main()
