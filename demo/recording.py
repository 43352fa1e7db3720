"""A screen that keeps what it shows, and writes it as one animated picture at the end."""

import time
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from demo.cutting import Shot, cut
from demo.picture import Line, picture
from demo.scene import Scene
from demo.screens import Diary, Screen
from demo.view import clock, live, utc_now
from devcluster.argument_types import unwritable

_COLUMNS = 100
"""About the number that fits into a README at the usual text size."""
_PROGRESS_SECONDS = 6.0
"""The time between two pictures while only the training progresses."""
_SEEN = """\
A terminal shows a training job on a Kubernetes of one machine: its phase, world, step and cost, its
nodes with their workers, and a diary. Three workers train, on two spot nodes and one on-demand. A
spot node gets a notice and its worker is replaced before it goes; another loses its power without a
word. At the end:"""


class Recorder:
    """Passes everything to another screen, and writes a file with the summary of the demo."""

    def __init__(
        self, screen: Screen, file: Path, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._screen = screen
        self._file = file
        self._diary = Diary(now)
        self._shots: list[Shot] = []
        self._seen: object = None

    def tell(self, text: str) -> None:
        """Pass the text on; it appears as a line, or in the diary of the next scene."""
        self._screen.tell(text)
        self._diary.write(text)
        if self._seen is None:
            lines = (f"{clock(seconds):>5}  {text}" for seconds, text in self._diary.entries)
            self._shoot(drawn(Text("\n".join(lines))))

    def show(self, scene: Scene) -> None:
        """Pass the scene on, and keep it if it shows a change that matters to a viewer."""
        self._screen.show(scene)
        self._diary.follow(scene)
        seen = (len(self._diary.entries), scene.phase, scene.members, scene.workers, scene.nodes)
        since = self._diary.seconds - self._shots[-1].at_seconds if self._shots else 0.0
        if seen != self._seen or since >= _PROGRESS_SECONDS:
            self._seen = seen
            self._shoot(drawn(live(scene, self._diary.entries, self._diary.seconds, utc_now())))

    def close(self) -> None:
        """Pass it on."""
        self._screen.close()

    def sum_up(self, lines: Sequence[str]) -> None:
        """Pass the lines on, keep them as the last shot, and write the file."""
        self._screen.sum_up(lines)
        rows = max(len(shot.lines) for shot in self._shots)
        above = self._shots[-1].lines  # lines without room scroll out
        self._shoot((*above, (), *drawn(Text("\n".join(lines))))[-rows:])
        film = cut(self._shots)
        title = f"make demo, {film.speed:.1f} times as fast as it was"
        text = picture(film.frames, title, " ".join(" ".join((_SEEN, *lines)).split()))
        try:
            self._file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ValueError(unwritable(str(self._file), error)) from None
        self._screen.tell(f"{self._file} shows it in {len(film.frames)} frames")

    def _shoot(self, lines: tuple[Line, ...]) -> None:
        self._shots.append(Shot(self._diary.seconds, lines))


def drawn(what: RenderableType) -> tuple[Line, ...]:
    """Return its lines on a terminal, even if the demo itself runs without one."""
    console = Console(
        file=StringIO(),
        width=_COLUMNS,
        color_system="truecolor",
        force_terminal=True,
        no_color=False,
    )
    return tuple(tuple(line) for line in console.render_lines(what, pad=False))
