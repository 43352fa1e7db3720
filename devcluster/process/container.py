"""A container as a process, with all processes that it starts."""

import asyncio
import logging
import os
import signal
from contextlib import suppress
from pathlib import Path

from devcluster import reaper
from devcluster.kubelet.runtime import Exit
from devcluster.process.launch import Files, Launch
from devcluster.process.logs import Log, Pump

_log = logging.getLogger(__name__)

_CANNOT_START = 128  # what containerd reports when the program cannot be executed
_MESSAGE_BYTES = 4096
# Only a process without the marker, its parent and its session can still hold the pipe then.
_OUTPUT_SECONDS = 2.0


class ProcessContainer:
    """One run of a container, from its start to the end of the last process it started."""

    def __init__(
        self,
        files: Files,
        process: asyncio.subprocess.Process,
        log: Log,
        pump: Pump,
        marks: tuple[str, str],
    ) -> None:
        self.log = log
        self._files = files
        self._process = process
        self._pump = pump
        self._marks = marks
        self._end = asyncio.ensure_future(self._to_the_end())

    async def wait(self) -> Exit:
        """Return when it and everything it started has ended."""
        return await asyncio.shield(self._end)

    def terminate(self) -> None:
        """Send SIGTERM to the main process."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the whole tree; processes forked meanwhile are killed before `wait` returns."""
        if self._process.returncode is None:
            reaper.strike(*self._marks)
            # Once more, in case it is in the middle of execve, where it has no mark.
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        # Not with asyncio's own methods: they poll, and may take the exit code from the thread that
        # waits for it (Python 3.11), which then reports 255.
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def _to_the_end(self) -> Exit:
        returncode = await self._process.wait()
        try:
            await asyncio.to_thread(reaper.kill_marked, *self._marks)
            async with asyncio.timeout(_OUTPUT_SECONDS):
                await self.log.completed()
        except TimeoutError as error:
            _log.warning("container %s left processes running: %s", self._marks[1], error)
            self._pump.stop()
        code = returncode if returncode >= 0 else 128 - returncode
        return Exit(code, message=_message(self._files.termination_log))


class NeverStarted:
    """A container whose program could not be executed: it has ended, as containerd reports it."""

    def __init__(self, log: Log, error: Exception) -> None:
        self.log = log
        self._exit = Exit(_CANNOT_START, reason="StartError", message=f"cannot start: {error}")

    async def wait(self) -> Exit:
        """Return at once."""
        return self._exit

    def terminate(self) -> None:
        """Do nothing: there is no process."""

    def kill(self) -> None:
        """Do nothing: there is no process."""


async def spawn(launch: Launch, marker: str, container: str) -> ProcessContainer | NeverStarted:
    """Start a process that carries the marks of its cluster and container."""
    launch.files.log.parent.mkdir(parents=True, exist_ok=True)
    launch.files.termination_log.touch()
    log = Log(launch.files.log)
    marks = {reaper.MARKER: marker, reaper.CONTAINER: container}
    read_end, write_end = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *launch.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=write_end,
            stderr=write_end,
            cwd=launch.directory,
            env={**launch.environment, **marks},
            start_new_session=True,
        )
    except BaseException as error:
        os.close(read_end)
        log.close()
        if isinstance(error, OSError | ValueError):  # ValueError: a NUL character in a word
            return NeverStarted(log, error)
        raise
    finally:
        os.close(write_end)
    return ProcessContainer(launch.files, process, log, Pump(read_end, log), (marker, container))


def _message(path: Path) -> str:
    try:
        with path.open("rb") as file:  # the end of a long message, as the kubelet does
            file.seek(max(file.seek(0, os.SEEK_END) - _MESSAGE_BYTES, 0))
            return file.read().decode(errors="replace")
    except (FileNotFoundError, IsADirectoryError):  # the container left no message
        return ""
