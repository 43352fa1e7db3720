"""Parallel coordinates as an SVG picture: a line for each trial, from parameter to metric. Pure."""

from collections.abc import Iterator, Sequence
from html import escape

from spotrun.cli.jobs.tune.axes import SHOWN, Axis
from spotrun.cli.report.content import Coordinates

_WIDTH, _HEIGHT = 860, 260
_SIDE, _TOP, _BOTTOM = 70, 40, 30
_BEST, _OTHER = "#1a7f37", "#999"


def parallel(coordinates: Coordinates) -> str:
    """Return the picture; the best trials are drawn last, and thicker."""
    axes, best = coordinates.axes, coordinates.best
    lines = [_line(axes, number, place) for place, number in enumerate(best)]
    parts = [
        *reversed(lines),
        *(part for n, axis in enumerate(axes) for part in _axis(axes, n, axis)),
    ]
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" width="100%" fill="#777" '
        'font-size="11" aria-label="Each trial as a line over all parameters">'
        f"{''.join(parts)}</svg>"
    )


def _line(axes: Sequence[Axis], number: int, place: int) -> str:
    """Return the line of a trial; it is broken where a parameter does not exist."""
    is_best = place < SHOWN
    colour, width = (_BEST, 2.5 if place == 0 else 1.5) if is_best else (_OTHER, 0.7)
    path, pen = "", "M"
    for at, axis in enumerate(axes):
        if (height := axis.heights.get(number)) is None:
            pen = "M"
            continue
        path += f"{pen}{_x(axes, at):.1f} {_y(height):.1f}"
        pen = "L"
    return (
        f'<path fill="none" stroke="{colour}" stroke-width="{width}" d="{path}">'
        f"<title>trial {number}, place {place + 1}</title></path>"
    )


def _axis(axes: Sequence[Axis], at: int, axis: Axis) -> Iterator[str]:
    x = _x(axes, at)
    yield f'<path stroke="#555" stroke-width="1" d="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>'
    places = ((axis.name, 14), (axis.high, _TOP - 6), (axis.low, _HEIGHT - _BOTTOM + 16))
    for text, y in places:
        yield f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{escape(text)}</text>'


def _x(axes: Sequence[Axis], at: int) -> float:
    return _SIDE + at / max(len(axes) - 1, 1) * (_WIDTH - 2 * _SIDE)


def _y(height: float) -> float:
    return _TOP + (1 - height) * (_HEIGHT - _TOP - _BOTTOM)
