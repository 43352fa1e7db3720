"""Settings of the whole machine that nodes change: kept before, put back afterwards."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from tests.e2e.kind.machine import HOME

_ALL = Path("/proc/sys")
_OF_KUBELETS = ("kernel.panic", "kernel.panic_on_oops", "vm.overcommit_memory", "vm.panic_on_oom")
_NAMES = (
    *_OF_KUBELETS,
    "fs.file-max",  # systemd
    "net.ipv4.ip_forward",  # the engine's network, with the rest
    "net.ipv4.conf.all.forwarding",
    "net.ipv4.conf.default.forwarding",
    "net.ipv4.conf.all.route_localnet",
    "net.ipv6.conf.all.forwarding",
    "net.ipv6.conf.default.forwarding",
    "net.bridge.bridge-nf-call-iptables",
)
_KEPT = HOME / "sysctls.json"


def keep() -> None:
    """Write down how they are, unless a cluster that was not taken down has changed them."""
    if os.geteuid() == 0 and not _KEPT.exists():
        _KEPT.parent.mkdir(parents=True, exist_ok=True)
        _KEPT.write_text(json.dumps({name: _read(name) for name in _NAMES}, indent=1))


def restore() -> None:
    """Put back what differs from how it was kept."""
    _put_back(_NAMES)
    _KEPT.unlink(missing_ok=True)


def restore_kubelets() -> None:
    """Put back what kubelets set at their start, and do not need: nodes share this machine.

    With vm.overcommit_memory at 1 whoever asks for more memory than there is gets it promised, and
    takes all of it.
    """
    _put_back(_OF_KUBELETS)


def _put_back(names: Iterable[str]) -> None:
    kept = json.loads(_KEPT.read_text()) if _KEPT.exists() else {}
    for name in names:
        value = kept.get(name)
        if value is not None and _read(name) != value:
            _path(name).write_text(value)


def _read(name: str) -> str | None:
    try:
        return _path(name).read_text().strip()
    except FileNotFoundError:
        return None  # a module of the kernel that is not loaded


def _path(name: str) -> Path:
    return _ALL / name.replace(".", "/")
