"""Commands of this machine, and which of them have to be there."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.binaries import cache_root

ROOT = Path(__file__).parents[3]
HOME = cache_root() / "e2e"
"""The folder that is kept between runs: programs, images, the state of a cluster that is up."""

_DEBIAN = {
    "podman": "podman",
    "runc": "runc",
    "iptables": "iptables",
    "debootstrap": "debootstrap",
    "jq": "jq",
    "/usr/lib/podman/netavark": "netavark",
    "/usr/lib/podman/aardvark-dns": "aardvark-dns",
}
"""The programs that a cluster without Docker needs, and the Debian packages that bring them."""


class SetupError(Exception):
    """Something did not work; the message says what, why, and what to try."""


def run(
    *command: str | Path,
    environment: Mapping[str, str] | None = None,
    given: str | None = None,
    cwd: Path = ROOT,
    seconds: float = 900,
) -> str:
    """Run a command and return what it prints; raises `SetupError` with its last words."""
    try:
        ran = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            input=given,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError as error:
        raise SetupError(f"{command[0]} was not found: install it, and put it on PATH") from error
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"not done within {seconds:.0f} s: {_shown(command)}") from error
    if ran.returncode:
        words = "\n".join((ran.stderr or ran.stdout).splitlines()[-20:])
        raise SetupError(f"exit code {ran.returncode} of: {_shown(command)}\n{words}")
    return ran.stdout


def _shown(command: Sequence[str | Path]) -> str:
    return " ".join(map(str, command))


def succeeds(*command: str) -> bool:
    """Whether a command is there and content."""
    return bool(shutil.which(command[0])) and (
        subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    )


def require_podman() -> None:
    """Raise if this machine cannot run nodes with podman, with what to install."""
    if os.geteuid() != 0:
        raise SetupError(
            "no Docker engine answers, and podman's nodes need root here: start Docker, or run "
            "this as root"
        )
    missing = [package for tool, package in _DEBIAN.items() if not shutil.which(tool)]
    if missing:
        raise SetupError(
            f"no Docker engine answers, and for podman some tools are missing. On Debian:\n"
            f"    apt-get install --no-install-recommends {' '.join(missing)}"
        )
