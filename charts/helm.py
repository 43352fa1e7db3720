"""Helm: found on the machine, or built once from a pinned Go module and cached."""

import hashlib
import platform
import re
import shutil
import subprocess
from pathlib import Path

from devcluster.golang import Program, Progress, cache_root, compile_program, find_go, only_builder

_PINS = Path(__file__).with_name("binaries")
_MODULE = "helm.sh/helm/v4"
_COLD_SECONDS = 60


class HelmError(Exception):
    """Helm reported an error; the message is Helm's."""


def version() -> str:
    """The pinned version, such as v4.3.1."""
    found = re.search(
        rf"^require {re.escape(_MODULE)} (v\S+)$", (_PINS / "go.mod").read_text(), re.MULTILINE
    )
    assert found, f"go.mod does not require {_MODULE}"
    return found[1]


def ensure(progress: Progress) -> Path:
    """Return Helm's path: on PATH if its minor version is the pinned one; else our own build."""
    on_path = shutil.which("helm")
    if on_path is not None and _is_good_version(Path(on_path)):
        return Path(on_path)
    folder = cache_root() / _key()
    if not (folder / "helm").is_file():
        _build(folder, progress)
    return folder / "helm"


def run(helm: Path, *arguments: str | Path) -> str:
    """Return the output of a Helm command; raises HelmError if it fails."""
    ran = subprocess.run([helm, *arguments], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise HelmError(ran.stderr.strip() or ran.stdout.strip())
    return ran.stdout


def _key() -> str:
    inputs = b"".join((_PINS / name).read_bytes() for name in ("go.mod", "go.sum"))
    digest = hashlib.sha256(inputs + platform.machine().encode()).hexdigest()[:12]
    return f"helm-{version()}-{digest}"


def _is_good_version(helm: Path) -> bool:
    minor = version().rpartition(".")[0]
    try:
        return run(helm, "version", "--short").startswith(f"{minor}.")
    except (OSError, HelmError):
        return False


def _build(folder: Path, progress: Progress) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stamp = f"-s -w -X {_MODULE}/internal/version.version={version()}"
    program = Program("helm", f"{_MODULE}/cmd/helm", _PINS, stamp, _COLD_SECONDS)
    with only_builder(folder.with_name(f"{folder.name}.lock"), progress):
        if not (folder / "helm").is_file():
            compile_program(find_go(_PINS, progress), program, folder, progress)
