"""Frames of a terminal as one SVG that plays them, without scripts or remote files. Pure.

All frames are side by side on a strip, which moves by one frame at a time. A line that several
frames show is written once. Each word has a position and a width, so that columns stay aligned with
any monospace font of the viewer.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from xml.sax.saxutils import escape

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME as THEME

Line = tuple[Segment, ...]

_SVG = "http://www.w3.org/2000/svg"
_CELL, _ROW, _FONT = 8, 16, 13.3  # the usual monospace font is 0.6 as wide as it is high
_MARGIN, _BASELINE = 16, 13
_HEAD_ROWS = 2
_FAMILY = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_PLAIN = f'font-family="{_FAMILY}" font-size="{_FONT}" fill="{THEME.foreground_color.hex}"'
_DIM, _BOLD = 'fill-opacity=".6"', 'font-weight="bold"'
_RUN = re.compile(r"\S+(?: \S+)*")
"""Words with single spaces between them; words farther apart are placed separately."""
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Frame:
    """The lines that the terminal shows for some time."""

    lines: tuple[Line, ...]
    seconds: float


def picture(frames: Sequence[Frame], title: str, description: str) -> str:
    """Draw frames as an SVG that shows one after the other, repeatedly, below the title.

    Without animations, it shows the last frame.
    """
    if not frames:
        raise ValueError("nothing was shown, so no frame can be drawn: record a whole demo")
    drawn = [[_line(line) for line in frame.lines] for frame in frames]
    names = {line: f"l{n}" for n, line in enumerate(dict.fromkeys(chain.from_iterable(drawn)))}
    width = max(_columns(line) for frame in frames for line in frame.lines) * _CELL + 2 * _MARGIN
    height = (_HEAD_ROWS + max(map(len, drawn))) * _ROW + 2 * _MARGIN
    size, label = f'width="{width}" height="{height}"', 'aria-labelledby="title desc"'
    parts = [
        f'<svg xmlns="{_SVG}" {size} viewBox="0 0 {width} {height}" role="img" {label} {_PLAIN}>',
        f'<title id="title">{_text(title)}</title>',
        f'<desc id="desc">{_text(description)}</desc>',
        *("<style>", *_moves([frame.seconds for frame in frames], width), "</style>"),
        *("<defs>", *(f'<g id="{name}">{line}</g>' for line, name in names.items()), "</defs>"),
        f'<rect {size} rx="6" fill="{THEME.background_color.hex}"/>',
        f'<text x="{_MARGIN}" y="{_MARGIN + _BASELINE}" {_DIM}>{_text(title)}</text>',
        f"<svg {size}>",  # an inner one hides everything outside it
        f'<g class="strip" transform="translate({-width * (len(frames) - 1)})">',
        *(_frame(lines, names, width * n) for n, lines in enumerate(drawn)),
        "</g>",
        "</svg>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _moves(seconds: Sequence[float], width: int) -> Iterator[str]:
    """Yield the lines of the style sheet that moves the strip."""
    whole = sum(seconds)
    yield "@media (prefers-reduced-motion: no-preference) {"
    yield f"  .strip {{ animation: play {whole:.2f}s step-end infinite; }}"
    yield "}"
    yield "@keyframes play {"
    for n, begin in enumerate((0.0, *accumulate(seconds[:-1]))):
        yield f"  {100 * begin / whole:.3f}% {{ transform: translateX({-width * n}px); }}"
    yield "}"


def _columns(line: Line) -> int:
    return sum(cell_len(segment.text) for segment in line)


def _line(line: Line) -> str:
    runs, column = [], 0
    for segment in line:
        look = _look(segment.style) if segment.style else ""
        runs += [_run(found, column, look) for found in _RUN.finditer(segment.text)]
        column += cell_len(segment.text)
    return "".join(runs)


def _run(found: re.Match[str], column: int, look: str) -> str:
    cells = cell_len(found[0])
    x = _MARGIN + (column + cell_len(found.string[: found.start()])) * _CELL
    length = f' textLength="{cells * _CELL}" lengthAdjust="spacingAndGlyphs"' if cells > 1 else ""
    return f'<text x="{x}"{length}{look}>{_text(found[0])}</text>'


def _look(style: Style) -> str:
    """Return the differences from plain text as SVG attributes."""
    colour = f' fill="{style.color.get_truecolor(THEME).hex}"' if style.color else ""
    return colour + (f" {_DIM}" if style.dim else "") + (f" {_BOLD}" if style.bold else "")


def _frame(lines: Sequence[str], names: Mapping[str, str], x: int) -> str:
    rows = (
        f'<use href="#{names[line]}" y="{_MARGIN + row * _ROW + _BASELINE}"/>'
        for row, line in enumerate(lines, _HEAD_ROWS)
    )
    return f'<g transform="translate({x})">{"".join(rows)}</g>'


def _text(text: str) -> str:
    return escape(_NOT_IN_XML.sub("?", text))
