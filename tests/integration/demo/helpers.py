"""Demos as processes, what they show, and what they leave behind."""

import asyncio
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]
# Idle, two cores take a minute and a half; a busy machine may take many.
PATIENCE_SECONDS = 900


@dataclass
class Demo:
    """One demo as a process, and what it has shown so far."""

    process: asyncio.subprocess.Process
    pid_file: Path
    lines: list[str] = field(default_factory=list)

    async def until(self, words: str) -> None:
        """Wait until it shows these words."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not any(words in line for line in self.lines):
                assert await self._read(), f"it ended before {words!r}:\n{self.text}"

    async def ended(self) -> int:
        """Wait for its end; returns the exit code."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await self._read():
                pass
            return await self.process.wait()

    def interrupt(self) -> None:
        """Press Ctrl-C: all processes of the terminal's foreground get it."""
        os.killpg(self.process.pid, signal.SIGINT)

    @property
    def text(self) -> str:
        """All that it has shown."""
        return "\n".join(self.lines)

    def place(self, words: str) -> int:
        """The first line that shows these words."""
        return next(i for i, line in enumerate(self.lines) if words in line)

    async def _read(self) -> bool:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        if line:
            self.lines.append(line.decode().rstrip("\n"))
        return bool(line)


@dataclass
class Theatre:
    """Starts demos whose files lie in one folder; none outlives its test."""

    folder: Path
    demos: list[Demo] = field(default_factory=list)

    async def start(self, *arguments: str) -> Demo:
        """Start a demo that prints lines."""
        pid_file = self.folder / "demo.pid"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "demo", "--plain", "--pid-file", str(pid_file), *arguments),
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(self.folder)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        demo = Demo(process, pid_file)
        self.demos.append(demo)
        return demo

    def leftovers(self) -> list[str]:
        """Files that are left, and processes that run with one of them in their command line."""
        files = [str(path) for path in self.folder.iterdir()]
        return files + [line for line in _command_lines() if str(self.folder) in line]

    async def until_left(self, *files: Path) -> None:
        """Wait until nothing but these files is left: a watchdog cleans up, and tells nobody."""
        async with asyncio.timeout(30):
            while True:
                if self.leftovers() == list(map(str, files)):
                    return
                await asyncio.sleep(0.1)


def _command_lines() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except (OSError, UnicodeDecodeError):
                continue  # it has ended, or is none of ours
    return found
