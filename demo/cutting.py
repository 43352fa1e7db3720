"""The choice of moments for the recording of a demo, and how long each is shown. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from demo.picture import Frame, Line

MOST_FRAMES = 24
WHOLE_SECONDS = 28.0
LAST_SECONDS = 7.0
"""The summary is a dozen lines to read."""
LEAST_SECONDS = 0.3
"""A frame that is shown for less is not noticed."""
LONGEST_PAUSE_SECONDS = 15.0
"""The first demo compiles Kubernetes, which takes minutes."""


@dataclass(frozen=True)
class Shot:
    """The lines that the screen showed from some time on."""

    at_seconds: float
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Film:
    """The frames of a recording, and by how much they are played faster than real time."""

    frames: tuple[Frame, ...]
    speed: float


def cut(shots: Sequence[Shot]) -> Film:
    """Choose the shots and the speed, so that people can follow and the film is short.

    The shortest shots are left out; the shot before is shown longer instead, so that nothing is
    shown before it happened. The last shot is kept and stays for several seconds.
    """
    kept = _without_pauses(shots)
    span = kept[-1].at_seconds - kept[0].at_seconds if kept else 0.0
    speed = max(span / (WHOLE_SECONDS - LAST_SECONDS), 1.0)
    kept = _thinned(kept, LEAST_SECONDS * speed)
    frames = [
        Frame(shot.lines, (after.at_seconds - shot.at_seconds) / speed)
        for shot, after in pairwise(kept)
    ]
    frames += [Frame(shot.lines, LAST_SECONDS) for shot in kept[-1:]]
    return Film(tuple(frames), speed)


def _without_pauses(shots: Sequence[Shot]) -> list[Shot]:
    short, skipped = list(shots[:1]), 0.0
    for before, shot in pairwise(shots):
        skipped += max(shot.at_seconds - before.at_seconds - LONGEST_PAUSE_SECONDS, 0.0)
        short.append(Shot(shot.at_seconds - skipped, shot.lines))
    return short


def _thinned(shots: Sequence[Shot], least_seconds: float) -> list[Shot]:
    kept = list(shots)
    while len(kept) > 2:
        lasted = [after.at_seconds - shot.at_seconds for shot, after in pairwise(kept[1:])]
        shortest = min(lasted)
        if len(kept) <= MOST_FRAMES and shortest >= least_seconds:
            break
        del kept[1 + lasted.index(shortest)]
    return kept
