"""The output of the demo: lines with times, or a live view if there is a terminal."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from rich.console import Console
from rich.live import Live

from demo.news import news, ticker
from demo.scene import Scene
from demo.view import Entry, clock, live, utc_now

_TICK_SECONDS = 5.0


class Screen(Protocol):
    """The output interface that `perform` needs."""

    def tell(self, text: str) -> None:
        """Report what happens, with the time."""

    def show(self, scene: Scene) -> None:
        """Show the present scene."""

    def close(self) -> None:
        """Show no more scenes; later output is printed in lines."""

    def sum_up(self, lines: Sequence[str]) -> None:
        """Show the figures, after the last scene."""


class Diary:
    """A record of all reports and of the changes in each scene, with their times."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.entries: list[Entry] = []
        self._now = now
        self._began = now()
        self._before = Scene(0.0)

    @property
    def seconds(self) -> float:
        """The seconds since the diary was begun."""
        return self._now() - self._began

    def write(self, text: str) -> Entry:
        """Record what happens now."""
        self.entries.append((self.seconds, text))
        return self.entries[-1]

    def follow(self, scene: Scene) -> None:
        """Record what is new in a scene."""
        for line in news(self._before, scene):
            self.write(line)
        self._before = scene


class LineScreen:
    """Prints a line for everything new, and one every few seconds for the training."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._before = Scene(0.0)
        self._ticked_at = 0.0

    def tell(self, text: str) -> None:
        """Print a line."""
        print(f"{clock(time.monotonic() - self._began):>5}  {text}", flush=True)

    def show(self, scene: Scene) -> None:
        """Print what is new."""
        for line in news(self._before, scene):
            self.tell(line)
        if scene.seconds - self._ticked_at >= _TICK_SECONDS:
            self._ticked_at = scene.seconds
            self.tell(ticker(scene))
        self._before = scene

    def close(self) -> None:
        """Do nothing: there are only lines."""

    def sum_up(self, lines: Sequence[str]) -> None:
        """Print them."""
        _print(lines)


class LiveScreen:
    """Prints lines until there is a scene, then one picture that changes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._diary = Diary()
        self._live: Live | None = None

    def tell(self, text: str) -> None:
        """Print a line, or write it into the diary of the picture."""
        seconds, _ = self._diary.write(text)
        if self._live is None:
            self._console.print(f"{clock(seconds):>5}  {text}", markup=False, highlight=False)

    def show(self, scene: Scene) -> None:
        """Draw."""
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        self._diary.follow(scene)
        picture = live(scene, self._diary.entries, self._diary.seconds, utc_now())
        self._live.update(picture, refresh=True)

    def close(self) -> None:
        """Leave the last picture where it is."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def sum_up(self, lines: Sequence[str]) -> None:
        """Print them below the picture."""
        _print(lines)


def open_screen(*, plain: bool) -> Screen:
    """Return the live view if standard output is a terminal and lines were not requested."""
    console = Console()
    return LineScreen() if plain or not console.is_terminal else LiveScreen(console)


def _print(lines: Sequence[str]) -> None:
    print("\n".join(("", *lines, "")), flush=True)
