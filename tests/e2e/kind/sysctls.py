"""Settings of the whole machine that nodes change: kept before, put back afterwards."""

import json
import os
from pathlib import Path

from tests.e2e.kind.machine import HOME

_ALL = Path("/proc/sys")
_NAMES = (
    "fs.file-max",  # systemd
    "kernel.panic",  # the kubelet, with the next three
    "kernel.panic_on_oops",
    "vm.overcommit_memory",
    "vm.panic_on_oom",
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
    if not _KEPT.exists():
        return
    for name, value in json.loads(_KEPT.read_text()).items():
        if value is not None and _read(name) != value:
            _path(name).write_text(value)
    _KEPT.unlink()


def _read(name: str) -> str | None:
    try:
        return _path(name).read_text().strip()
    except FileNotFoundError:
        return None  # a module of the kernel that is not loaded


def _path(name: str) -> Path:
    return _ALL / name.replace(".", "/")
