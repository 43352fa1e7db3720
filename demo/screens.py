"""Where the demo shows itself: lines with times, or a live view where there is a terminal."""

import time
from typing import Protocol

from rich.console import Console
from rich.live import Live

from demo.news import news, ticker
from demo.scene import Scene
from demo.view import Entry, clock, live, utc_now

_TICK_SECONDS = 5.0


class Screen(Protocol):
    """What the performance needs."""

    def tell(self, text: str) -> None:
        """Say what happens, with the time."""

    def show(self, scene: Scene) -> None:
        """Show what is to be seen now."""

    def close(self) -> None:
        """Show no more scenes; what comes is said in lines."""


class Plain:
    """A line for everything that is new, and one every few seconds for the training."""

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
        """Do nothing: lines are all there is."""


class Lively:
    """Lines until there is a scene, then one picture that changes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._diary: list[Entry] = []
        self._before = Scene(0.0)
        self._live: Live | None = None

    def tell(self, text: str) -> None:
        """Print a line, or write it into the diary of the picture."""
        entry = (self._seconds(), text)
        self._diary.append(entry)
        if self._live is None:
            self._console.print(f"{clock(entry[0]):>5}  {text}", markup=False, highlight=False)

    def show(self, scene: Scene) -> None:
        """Draw."""
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        for line in news(self._before, scene):
            self.tell(line)
        self._before = scene
        picture = live(scene, self._diary, self._seconds(), utc_now())
        self._live.update(picture, refresh=True)

    def close(self) -> None:
        """Leave the last picture where it is."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _seconds(self) -> float:
        return time.monotonic() - self._began


def open_screen(*, plain: bool) -> Screen:
    """The live view if standard output is a terminal and nobody asked for lines."""
    console = Console()
    return Plain() if plain or not console.is_terminal else Lively(console)
