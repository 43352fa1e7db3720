"""`python -m devcluster`: start, use and end a real Kubernetes on this machine."""

import argparse
import asyncio
import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

try:
    from devcluster import binaries, supervisor
    from devcluster.arguments import parser
    from devcluster.azurite import program as azurite
    from devcluster.cluster import Cluster, to_stderr
    from devcluster.controlplane import COMPONENTS, ControlPlaneError
    from devcluster.kueue import program as kueue
    from devcluster.nodecommands import NodeCommands
    from devcluster.s3 import program
except ModuleNotFoundError as error:
    sys.exit(
        f"devcluster: {sys.executable} has no {error.name}: run it with the project's Python, "
        ".venv/bin/python, which `make setup` makes"
    )

_LAST_WORDS = 15


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong usage."""
    options = parser().parse_args(arguments)
    try:
        return _COMMANDS.get(options.command, _tell)(options)
    except (
        ValueError,
        OSError,
        supervisor.NotRunningError,
        binaries.BuildError,
        ControlPlaneError,
    ) as error:
        print(f"devcluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("devcluster: interrupted; nothing was left running", file=sys.stderr)
        return 130


def _build(options: argparse.Namespace) -> int:
    if options.s3:
        print(f"versitygw\t{program.ensure(to_stderr)}")
        return 0
    if options.azurite:
        print(f"azurite\t{azurite.ensure(to_stderr)}")
        return 0
    if options.kueue:
        print(f"kueue\t{kueue.ensure(to_stderr) / 'kueue'}")
        return 0
    for name, path in binaries.ensure(binaries.pin(options.kubernetes), to_stderr).items():
        print(f"{name}\t{path}")
    return 0


def _up(options: argparse.Namespace) -> int:
    """Start a supervisor that outlives this command, and wait until it is ready."""
    directory = _directory(options)
    state = supervisor.read_state(directory)
    if state is not None:
        if _answers(directory):
            print(f"devcluster: {options.name!r} runs already (Kubernetes {state.kubernetes})")
            return 0
        to_stderr(f"{options.name!r} was killed: removing its remains")
        supervisor.end(directory)
    supervisor.require_own(directory)
    pin = binaries.pin(options.kubernetes)
    binaries.ensure(pin, to_stderr)
    to_stderr(f"starting Kubernetes {pin.kubernetes}")
    if not _start_supervisor(directory, options):
        return 1
    print(f'devcluster: {options.name!r} is ready. Next: eval "$({_env_command(options)})"')
    return 0


def _env_command(options: argparse.Namespace) -> str:
    """Return the command that prints this cluster's variables, with a Python that can do so."""
    python = os.path.relpath(sys.executable)
    flags = {"--name": options.name != "dev" and options.name, "--directory": options.directory}
    which = [f"{flag}={value}" for flag, value in flags.items() if value]
    return shlex.join([min(python, sys.executable, key=len), "-m", "devcluster", "env", *which])


def _start_supervisor(directory: Path, options: argparse.Namespace) -> bool:
    directory.mkdir(parents=True, exist_ok=True)
    read_end, write_end = os.pipe()
    words = directory / supervisor.LOG
    command = [sys.executable, "-m", "devcluster", "run", *_forwarded(options)]
    with words.open("wb") as log:
        process = subprocess.Popen(
            [*command, "--ready-fd", str(write_end)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=[write_end],
            cwd=Path(__file__).parents[1],
            start_new_session=True,
        )
    os.close(write_end)
    with os.fdopen(read_end, "rb") as ready:
        try:
            if ready.read():
                return True
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
    process.wait()
    tail = words.read_text(errors="replace").splitlines() if words.exists() else []
    print("\n".join(["devcluster: it did not start:", *tail[-_LAST_WORDS:]]), file=sys.stderr)
    supervisor.end(directory)
    return False


def _forwarded(options: argparse.Namespace) -> list[str]:
    given = [f"--directory={_directory(options)}", f"--kubernetes={options.kubernetes}"]
    given += [f"--flag={text}" for text in options.flag]
    return given if options.logs is None else [*given, f"--logs={options.logs.resolve()}"]


def _run(options: argparse.Namespace) -> int:
    cluster = Cluster(
        options.kubernetes,
        directory=_directory(options),
        logs=options.logs,
        extra_flags=extra_flags(options.flag),
    )
    supervisor.require_own(_directory(options))
    supervisor.write_state(_directory(options), cluster)
    try:
        with cluster:
            asyncio.run(_supervise(cluster, options.ready_fd))
    finally:
        to_stderr("ended")
    return 0


async def _supervise(cluster: Cluster, ready_fd: int | None) -> None:
    def ready() -> None:
        if ready_fd is not None:
            os.write(ready_fd, b"ready\n")
            os.close(ready_fd)
        to_stderr(f"ready: export KUBECONFIG={cluster.kubeconfig}")

    async with NodeCommands(cluster) as nodes:
        await supervisor.supervise(cluster, nodes.perform, ready)


def _down(options: argparse.Namespace) -> int:
    directory = _directory(options)
    ended = supervisor.end(directory)
    if options.directory is None:
        with contextlib.suppress(OSError):
            directory.parent.rmdir()  # unless other clusters live there
    print(f"devcluster: {options.name!r} {'is down' if ended else 'was not up'}")
    return 0


def _status(options: argparse.Namespace) -> int:
    status = supervisor.ask(_directory(options), {"verb": "status"})
    if options.output == "json":
        print(json.dumps(status, indent=2))
        return 0
    print(f"Kubernetes {status['kubernetes']} at {status['server']}")
    for name in COMPONENTS:
        pid = status["components"].get(name)
        print(f"  {name:<26}{f'pid {pid}' if pid else 'not running'}")
    for node in status["nodes"]:
        print(f"  node {node['name']:<21}{node['kind']}")
    return 0


def _env(options: argparse.Namespace) -> int:
    environment: Mapping[str, str] = supervisor.ask(_directory(options), {"verb": "env"})
    for name, value in environment.items():
        print(f"export {name}='{value}'")
    return 0


def _tell(options: argparse.Namespace) -> int:
    """Send a parsed command about a node to the supervisor."""
    ours = {"command", "name", "directory"}
    command: dict[str, Any] = {k: v for k, v in vars(options).items() if k not in ours}
    answer = supervisor.ask(_directory(options), {"verb": options.command, **command})
    if answer:
        print(f"devcluster: {answer}")
    return 0


def extra_flags(texts: Sequence[str]) -> dict[str, list[str]]:
    """`kube-apiserver:--watch-cache=false` -> {"kube-apiserver": ["--watch-cache=false"]}."""
    parsed: dict[str, list[str]] = {}
    for text in texts:
        component, _, flag = text.partition(":")
        parsed.setdefault(component, []).append(flag)
    return parsed


def _directory(options: argparse.Namespace) -> Path:
    directory: Path = options.directory or Path(".devcluster") / options.name
    return directory.resolve()


def _answers(directory: Path) -> bool:
    try:
        supervisor.ask(directory, {"verb": "status"})
    except supervisor.NotRunningError:
        return False
    return True


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "build": _build,
    "up": _up,
    "run": _run,
    "down": _down,
    "status": _status,
    "env": _env,
}


if __name__ == "__main__":
    sys.exit(main())
