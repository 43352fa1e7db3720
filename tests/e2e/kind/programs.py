"""The programs of a node and kind itself: built once from the Go module proxy, kept by version."""

import hashlib
import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

from devcluster.binaries import Pin, ensure, pin
from devcluster.golang import find_go
from tests.e2e.kind.machine import HOME, run

Progress = Callable[[str], None]

KIND = "sigs.k8s.io/kind@v0.33.0"
COREDNS = "github.com/coredns/coredns@v1.15.0"
PROVISIONER = "github.com/rancher/local-path-provisioner@v0.0.30"
NODE_MODULE = Path(__file__).with_name("binaries")
_OF_KUBERNETES = ("kubelet", "kubeadm", "kube-proxy")
_VERSION = "k8s.io/component-base/version"


def kubernetes() -> Pin:
    """The oldest supported Kubernetes: newer kubelets refuse Debian's containerd."""
    return pin("oldest")


def kubectl(progress: Progress) -> Path:
    """kubectl of the version that nodes of our own making run."""
    return ensure(kubernetes(), progress)["kubectl"]


def kind(progress: Progress) -> Path:
    """kind, built if it is not there."""
    return _installed(KIND, HOME / "programs" / f"kind-{KIND.rpartition('@')[2]}", progress)


def node_programs(progress: Progress) -> Path:
    """A folder with all programs of a node image, built if they are not there."""
    folder = HOME / "programs" / f"node-{key()}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in ensure(kubernetes(), progress).items():
        if not (folder / name).is_file():
            shutil.copy2(path, folder / name)
    for name in _OF_KUBERNETES:
        if not (folder / name).is_file():
            progress(f"building {name} (once)")
            _build(name, folder, progress)
    for module in (COREDNS, PROVISIONER):
        _installed(module, folder, progress)
    return folder


def key() -> str:
    """Return a key of all that decides how these programs come out."""
    inputs = [(NODE_MODULE / name).read_bytes() for name in ("go.mod", "go.sum")]
    versions = f"{kubernetes().key} {COREDNS} {PROVISIONER} {KIND} {platform.machine()}"
    digest = hashlib.sha256(b"".join([*inputs, versions.encode()])).hexdigest()
    return f"{kubernetes().kubernetes}-{digest[:12]}"


def _build(name: str, folder: Path, progress: Progress) -> None:
    version = kubernetes().kubernetes
    stamps = {"gitVersion": version, "gitMajor": "1", "gitMinor": version.split(".")[1]}
    flags = " ".join(["-s -w", *(f"-X {_VERSION}.{k}={v}" for k, v in stamps.items())])
    partial = folder / f"{name}.partial"
    command = ("build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", partial)
    _go(*command, f"k8s.io/kubernetes/cmd/{name}", folder=folder, progress=progress)
    partial.rename(folder / name)


def _installed(module: str, folder: Path, progress: Progress) -> Path:
    name = module.rpartition("/")[2].partition("@")[0]
    if not (folder / name).is_file():
        progress(f"building {module} (once)")
        folder.mkdir(parents=True, exist_ok=True)
        command = ("install", "-trimpath", "-ldflags", "-s -w", module)
        _go(*command, folder=folder, progress=progress)
    return folder / name


def _go(*arguments: str | Path, folder: Path, progress: Progress) -> None:
    go = find_go(NODE_MODULE, progress)
    kept = {"CGO_ENABLED": "0", "GOBIN": str(folder), "GOFLAGS": "", "GOWORK": "off"}
    run(go, *arguments, environment={**os.environ, **kept}, cwd=NODE_MODULE, seconds=1800)
