"""The timeline of a job as an SVG picture: the size of its world, losses and decisions. Pure."""

from collections.abc import Sequence
from datetime import datetime
from html import escape

from spotrun.cli.report.content import Moment

_WIDTH, _HEIGHT = 860, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 20, 20, 40
_TICKS = 5
_STROKES = {"loss": "#cf222e", "world": "#1a7f37", "decision": "#0969da"}
_LINE = 'fill="none" stroke="#1a7f37"'
"""Colours are attributes: they work on a page without style, and a page's own style wins."""


def timeline(moments: Sequence[Moment], now: datetime) -> str:
    """Return the picture; empty if fewer than two moments are known."""
    if len(moments) < 2:
        return ""
    begin, end = moments[0].at, max(moments[-1].at, min(now, moments[-1].at))
    seconds = max((end - begin).total_seconds(), 1.0)
    most = max([one.size or 0 for one in moments] + [1])

    def x(at: datetime) -> float:
        return _LEFT + (at - begin).total_seconds() / seconds * (_WIDTH - _LEFT - _RIGHT)

    def y(size: int) -> float:
        return _HEIGHT - _BOTTOM - size / most * (_HEIGHT - _TOP - _BOTTOM)

    points, size = [], None
    for one in moments:
        if one.size is None:
            continue
        if size is not None:
            points.append(f"{x(one.at):.1f},{y(size):.1f}")
        size = one.size
        points.append(f"{x(one.at):.1f},{y(size):.1f}")
    if size is not None:
        points.append(f"{x(end):.1f},{y(size):.1f}")
    parts = [
        f'<polyline class="size" {_LINE} points="{" ".join(points)}"/>' if points else "",
        *(_mark(one, x(one.at)) for one in moments),
        *_axis(begin, seconds, most, y(most), y(0)),
    ]
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" width="100%" '
        'fill="#777" font-size="11" stroke-width="2" '
        f'aria-label="Workers of the world over time">{"".join(parts)}</svg>'
    )


def _mark(one: Moment, x: float) -> str:
    kind = "loss" if one.is_loss else "world" if one.size is not None else "decision"
    top = _TOP if one.is_loss else _HEIGHT - _BOTTOM - 6
    title = escape(f"{one.at:%H:%M:%S} {one.what}: {one.text}")
    return (
        f'<line class="{kind}" stroke="{_STROKES[kind]}" '
        f'x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{_HEIGHT - _BOTTOM}">'
        f"<title>{title}</title></line>"
    )


def _axis(begin: datetime, seconds: float, most: int, top: float, bottom: float) -> list[str]:
    parts = [
        f'<text x="{_LEFT - 6}" y="{top + 4:.1f}" text-anchor="end">{most}</text>',
        f'<text x="{_LEFT - 6}" y="{bottom + 4:.1f}" text-anchor="end">0</text>',
        f'<path stroke="#999" stroke-width="1" d="M{_LEFT} {bottom}H{_WIDTH - _RIGHT}"/>',
    ]
    for tick in range(_TICKS):
        share = tick / (_TICKS - 1)
        at = datetime.fromtimestamp(begin.timestamp() + share * seconds, begin.tzinfo)
        x = _LEFT + share * (_WIDTH - _LEFT - _RIGHT)
        anchor = "start" if tick == 0 else "end" if tick == _TICKS - 1 else "middle"
        parts.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - 14}" text-anchor="{anchor}">{at:%H:%M:%S}</text>'
        )
    return parts
