"""Reads what the demo has drawn, as a browser does."""

import re
from dataclasses import dataclass
from xml.etree import ElementTree as ET

_SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Drawn:
    """A picture: what stands in it, and when which frame is shown."""

    root: ET.Element
    title: str
    description: str
    frames: list[list[str]]  # the lines of each, words apart by single spaces
    seconds: list[float]  # each is shown


def read(text: str) -> Drawn:
    """Parse a picture; raises ParseError if it is no XML."""
    root = ET.fromstring(text)  # noqa: S314 - our own
    lines = {line.attrib["id"]: line for line in root.iterfind(f"{_SVG}defs/{_SVG}g")}
    style = _text(root, "style")
    whole = float(re.findall(r"animation: play ([\d.]+)s", style)[0])
    shares = [float(share) for share in re.findall(r"([\d.]+)% \{", style)]
    return Drawn(
        root,
        _text(root, "title"),
        _text(root, "desc"),
        [
            [_words(lines[use.attrib["href"][1:]]) for use in frame]
            for frame in root.iterfind(f"{_SVG}svg/{_SVG}g/{_SVG}g")
        ],
        [(b - a) * whole / 100 for a, b in zip(shares, [*shares[1:], 100.0], strict=True)],
    )


def _text(root: ET.Element, name: str) -> str:
    return root.findtext(f"{_SVG}{name}") or ""


def _words(line: ET.Element) -> str:
    return " ".join(run.text or "" for run in line)
