"""A runtime whose containers are scripts: they start, run and end as a test defines.

No program is executed. A script is either data (delays, an exit, an error at the start) or a
coroutine function that *is* the container, so that a test can act as the program inside the pod.
"""

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network

from devcluster.kubelet.runtime import Container, Exit, Manifest, StartError

log = logging.getLogger(__name__)

LOG_LINES_MAX = 10_000
COMPLETED = Exit(0)
# The exit codes that a container runtime reports after SIGTERM and SIGKILL: 128 + the signal.
TERMINATED = Exit(143, "Error")
KILLED = Exit(137, "Error")
OOM_KILLED = Exit(137, "OOMKilled")


@dataclass(frozen=True)
class Context:
    """The data and functions for a coroutine that plays a container."""

    pod: Manifest
    container: Manifest
    env: Mapping[str, str]  # literal values and the downward API's fields; no ConfigMaps or Secrets
    pod_ip: str
    restarts: int
    terminated: asyncio.Event  # set by SIGTERM; SIGKILL cancels the coroutine
    log: Callable[[str], None]  # adds a line to what `kubectl logs` shows


Play = Callable[[Context], Awaitable[Exit]]


@dataclass(frozen=True)
class Script:
    """The behaviour of the containers of a pod."""

    start_seconds: float = 0
    start_error: StartError | None = None  # why it does not start; None: it starts
    start_failures: float = float("inf")  # the number of attempts that end with `start_error`
    run_seconds: float | None = None  # None: until it is asked to end
    exit: Exit = COMPLETED  # its exit if it ends by itself
    stop_seconds: float = 0  # from SIGTERM to its end
    stop_exit: Exit | None = TERMINATED  # its exit after SIGTERM; None: SIGTERM is ignored
    ends_on_kill: bool = True  # False: not even SIGKILL ends it, the pod stays Terminating
    output: str = ""  # what `kubectl logs` shows
    play: Play | None = None  # the container itself, instead of `run_seconds` and `exit`
    containers: Mapping[str, "Script"] = field(default_factory=dict)  # by name, instead of this one


FOREVER = Script()
AT_ONCE = Script(run_seconds=0)

ScriptFor = Callable[[Manifest], Script]


class Scripted:
    """The runtime: gives each pod its script and an address that nobody connects to.

    Init containers succeed at once unless the script names them in `containers`.
    """

    def __init__(
        self, script: Script | ScriptFor = FOREVER, *, network: str = "10.128.0.0/9"
    ) -> None:
        self._script_for = script if callable(script) else lambda _: script
        # A coroutine could listen on 127.0.0.0/8, but EndpointSlices refuse loopback addresses.
        self._addresses = IPv4Network(network).hosts()

    async def sandbox(self, pod: Manifest, node: Manifest) -> "ScriptedSandbox":
        """Look up the pod's script."""
        return ScriptedSandbox(pod, node, self._script_for(pod), str(next(self._addresses)))


class ScriptedSandbox:
    """A pod's scripts, address and logs."""

    def __init__(self, pod: Manifest, node: Manifest, script: Script, pod_ip: str) -> None:
        self.pod_ip = pod_ip
        self._pod = pod
        self._node = node
        self._script = script
        self._inits = {c["name"] for c in pod["spec"].get("initContainers", ())}
        self._attempts: dict[str, int] = {}
        self._logs: dict[str, Log] = {}
        self._started: list[ScriptedContainer | PlayedContainer] = []

    async def start(self, container: Manifest, restarts: int) -> Container:
        """Start a container's script."""
        name = container["name"]
        script = self._script.containers.get(name)
        if script is None:
            script = AT_ONCE if name in self._inits else self._script
        if script.start_seconds:
            await asyncio.sleep(script.start_seconds)
        self._attempts[name] = attempt = self._attempts.get(name, 0) + 1
        if script.start_error is not None and attempt <= script.start_failures:
            raise script.start_error
        self._logs[name] = output = Log()
        if script.output:
            output.write(script.output)
        if script.play is None:
            started: ScriptedContainer | PlayedContainer = ScriptedContainer(script, output)
        else:
            env = resolved_env(container, self._pod, self._node, self.pod_ip)
            terminated = asyncio.Event()
            context = Context(
                self._pod, container, env, self.pod_ip, restarts, terminated, output.write
            )
            started = PlayedContainer(
                script.play, context, output, ends_on_kill=script.ends_on_kill
            )
        self._started.append(started)
        return started

    async def logs(self, container: str, *, follow: bool, tail: int | None) -> AsyncIterator[bytes]:
        """Yield a container's lines."""
        output = self._logs.get(container)
        if output is not None:
            async for line in output.read(follow=follow, tail=tail):
                yield line

    async def remove(self) -> None:
        """End all running containers, even those that a script has made unkillable."""
        for container in self._started:
            container.end(KILLED)


class Log:
    """Lines that can be followed; if there are too many, the oldest are dropped."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._is_closed = False
        self._news = asyncio.Event()

    def write(self, text: str) -> None:
        """Add one or more lines."""
        self._lines += [line.encode() + b"\n" for line in text.splitlines()]
        del self._lines[:-LOG_LINES_MAX]
        self._wake()

    def close(self) -> None:
        """Mark the log as complete."""
        self._is_closed = True
        self._wake()

    async def read(self, *, follow: bool, tail: int | None) -> AsyncIterator[bytes]:
        """Yield the newest `tail` lines and, with `follow`, new ones."""
        lines = self._lines
        at = 0 if tail is None else max(0, len(lines) - tail)
        while True:
            news = self._news
            while at < len(lines):
                yield lines[at]
                at += 1
            if not follow or self._is_closed:
                return
            await news.wait()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class ScriptedContainer:
    """A container that ends after a time, or when it is told to; it needs no task."""

    def __init__(self, script: Script, output: Log) -> None:
        self._script = script
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Exit] = self._loop.create_future()
        self._end_in(script.run_seconds, script.exit)

    async def wait(self) -> Exit:
        """Return when it has ended."""
        return await asyncio.shield(self._ended)

    def terminate(self) -> None:
        """Behave as scripted for SIGTERM."""
        if self._script.stop_exit is not None:
            self._end_in(self._script.stop_seconds, self._script.stop_exit)

    def kill(self) -> None:
        """Behave as scripted for SIGKILL."""
        if self._script.ends_on_kill:
            self.end(KILLED)

    def end(self, how: Exit) -> None:
        """End, if it still runs."""
        if not self._ended.done():
            self._ended.set_result(how)
            self._output.close()

    def _end_in(self, seconds: float | None, how: Exit) -> None:
        if seconds is None:
            return
        if seconds <= 0:
            self.end(how)
        else:
            self._loop.call_later(seconds, self.end, how)


class PlayedContainer:
    """Runs a test's coroutine function as the container."""

    def __init__(self, play: Play, context: Context, output: Log, *, ends_on_kill: bool) -> None:
        self._ends_on_kill = ends_on_kill
        self._context = context
        self._output = output
        self._killed: Exit | None = None
        self._task = asyncio.create_task(self._run(play, context))

    async def wait(self) -> Exit:
        """Return when it has ended."""
        await asyncio.wait([self._task])
        return self._killed or self._task.result()

    def terminate(self) -> None:
        """Tell the coroutine, which decides what to do."""
        self._context.terminated.set()

    def kill(self) -> None:
        """Cancel the coroutine."""
        if self._ends_on_kill:
            self.end(KILLED)

    def end(self, how: Exit) -> None:
        """End, if it still runs."""
        if not self._task.done():
            self._killed = how
            self._task.cancel()

    async def _run(self, play: Play, context: Context) -> Exit:
        try:
            return await play(context)
        except Exception as error:
            # As a Python program would: the traceback in its log, and exit code 1.
            context.log("".join(traceback.format_exception(error)))
            log.exception("a played container failed")
            return Exit(1, message=f"{type(error).__name__}: {error}")
        finally:
            self._output.close()


def resolved_env(container: Manifest, pod: Manifest, node: Manifest, pod_ip: str) -> dict[str, str]:
    """Return a container's environment, as far as the manifests contain it. Pure."""
    meta = pod["metadata"]
    fields = {
        "metadata.name": meta["name"],
        "metadata.namespace": meta["namespace"],
        "metadata.uid": meta["uid"],
        "spec.nodeName": node["metadata"]["name"],
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
    }
    for kind in ("labels", "annotations"):
        fields |= {f"metadata.{kind}['{k}']": v for k, v in meta.get(kind, {}).items()}
    env: dict[str, str] = {}
    for variable in container.get("env", ()):
        source = variable.get("valueFrom")
        if source is None:
            env[variable["name"]] = variable.get("value", "")
        elif "fieldRef" in source:
            env[variable["name"]] = fields.get(source["fieldRef"]["fieldPath"], "")
    return env
