"""The Kubernetes binaries: found on the machine, or built once from a pinned Go module and cached.

There are no packages of these, but each is a Go program whose sources the module proxy serves. The
folders `binaries/current` and `binaries/oldest` pin the newest and the oldest supported Kubernetes.
A build takes minutes once per version; then it is in a cache that every checkout shares.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devcluster.golang import (
    BuildError,
    Program,
    Progress,
    cache_root,
    compile_program,
    find_go,
    only_builder,
)

__all__ = ["KUBERNETES", "BuildError", "Pin", "Progress", "cache_root", "ensure", "pin"]

PINS = Path(__file__).with_name("binaries")
KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
"""The first one compiles the code that all share, so it takes minutes."""

_ETCD_PACKAGE = "go.etcd.io/etcd/server/v3"
_COLD_SECONDS = {"kube-apiserver": 270, "kube-controller-manager": 95, "kubectl": 20}


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
        """The key in the cache: everything that the compiler's output depends on."""
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


def ensure(wanted: Pin, progress: Progress) -> dict[str, Path]:
    """Return each binary's path; builds those that are neither on the machine nor in the cache."""
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
    """Whether an installed binary has the pinned minor version: others may serve another API."""
    arguments = ["version", "--client"] if name == "kubectl" else ["--version"]
    try:
        ran = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return False  # for example of another architecture, or an interactive wrapper: build ours
    if name == "etcd":
        return f"etcd Version: {wanted.etcd.removeprefix('v').rpartition('.')[0]}." in ran.stdout
    return re.search(rf"\b{re.escape(wanted.minor)}\.\d+(\s|$)", ran.stdout) is not None


def _build(names: list[str], wanted: Pin, cached: Path, progress: Progress) -> None:
    cached.mkdir(parents=True, exist_ok=True)
    with only_builder(cached.with_name(f"{cached.name}.lock"), progress):
        names = [name for name in names if not (cached / name).is_file()]
        if not names:
            return  # the process we waited for has built them
        go = find_go(wanted.folder, progress)
        progress(
            f"building Kubernetes {wanted.kubernetes} into {cached} (once; about 7 min on 2 cores)"
        )
        for number, name in enumerate(names, 1):
            numbered = _prefixed(progress, f"[{number}/{len(names)}] ")
            compile_program(go, _program(name, wanted), cached, numbered)


def _prefixed(progress: Progress, prefix: str) -> Progress:
    return lambda line: progress(prefix + line)


def _program(name: str, wanted: Pin) -> Program:
    seconds = _COLD_SECONDS.get(name, 10)
    return Program(name, _package(name), wanted.folder, _linker_flags(wanted), seconds)


def _package(name: str) -> str:
    return _ETCD_PACKAGE if name == "etcd" else f"k8s.io/kubernetes/cmd/{name}"


def _linker_flags(wanted: Pin) -> str:
    """Return flags that set the version: without them the server reports v0.0.0-master."""
    stamps = {"gitVersion": wanted.kubernetes, "gitMajor": "1"}
    stamps["gitMinor"] = wanted.kubernetes.split(".")[1]
    package = "k8s.io/component-base/version"
    return " ".join(["-s -w", *(f"-X {package}.{name}={text}" for name, text in stamps.items())])
