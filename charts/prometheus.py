"""Prometheus and promtool: found on the machine, or built once from a pinned module and cached.

Only tests need them: they run alerts and dashboards on the real programs.
"""

import hashlib
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Literal

from devcluster.golang import Program, Progress, cache_root, compile_program, find_go, only_builder

_PINS = Path(__file__).with_name("binaries") / "prometheus"
_MODULE = "github.com/prometheus/prometheus"
_COLD_SECONDS = {"promtool": 170, "prometheus": 20}
"""The order of building: nearly everything that the second needs has been compiled by then."""
_TAGS = "remove_all_sd"
"""The build leaves out the clients of thirty clouds, which are not used here."""

_Name = Literal["promtool", "prometheus"]


def version() -> str:
    """The pinned version in Prometheus' own form, such as 3.16.0; its module has v0.316.0."""
    found = re.search(
        rf"^\t?(?:require )?{re.escape(_MODULE)} v0\.(\d)(\d\d)\.(\d+)$",
        (_PINS / "go.mod").read_text(),
        re.MULTILINE,
    )
    assert found, f"go.mod does not require {_MODULE}"
    return f"{found[1]}.{int(found[2])}.{found[3]}"


def promtool(progress: Progress) -> Path:
    """Return the path of promtool."""
    return _ensure("promtool", progress)


def server(progress: Progress) -> Path:
    """Return the path of Prometheus itself."""
    return _ensure("prometheus", progress)


def _ensure(name: _Name, progress: Progress) -> Path:
    """Return the program on PATH if it has the pinned major version; else our own build."""
    on_path = shutil.which(name)
    if on_path is not None and _is_good_version(Path(on_path)):
        return Path(on_path)
    folder = cache_root() / _key()
    if not (folder / name).is_file():
        _build(name, folder, progress)
    return folder / name


def _key() -> str:
    inputs = b"".join((_PINS / name).read_bytes() for name in ("go.mod", "go.sum"))
    digest = hashlib.sha256(inputs + _TAGS.encode() + platform.machine().encode()).hexdigest()[:12]
    return f"prometheus-{version()}-{digest}"


def _is_good_version(program: Path) -> bool:
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=20, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return False  # for example of another architecture, or an interactive wrapper: build ours
    return f", version {version().partition('.')[0]}." in said


def _build(name: _Name, folder: Path, progress: Progress) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stamp = f"-s -w -X github.com/prometheus/common/version.Version={version()}"
    package = f"{_MODULE}/cmd/{name}"
    program = Program(name, package, _PINS, stamp, _COLD_SECONDS[name], _TAGS)
    with only_builder(folder.with_name(f"{folder.name}.lock"), progress):
        if not (folder / name).is_file():
            compile_program(find_go(_PINS, progress), program, folder, progress)
