"""Azurite: installed once from npm, by a lock with hashes, and cached.

It needs Node.js 20 or newer with npm, and 360 MB. So it is installed only on request.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path

from devcluster.golang import BuildError, Progress, cache_root, only_builder

_MODULE = Path(__file__).parent
_INPUTS = ("package.json", "package-lock.json")
_MAIN = Path("node_modules/azurite/dist/src/blob/main.js")


def ensure(progress: Progress) -> Path:
    """Return the path of the program for node; installs it if it is not in the cache."""
    inputs = b"".join((_MODULE / name).read_bytes() for name in _INPUTS)
    folder = cache_root() / f"azurite-{hashlib.sha256(inputs).hexdigest()[:12]}"
    if not (folder / _MAIN).is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with only_builder(folder.with_name(f"{folder.name}.lock"), progress):
            if not (folder / _MAIN).is_file():
                _install(folder, progress)
    return folder / _MAIN


def _install(folder: Path, progress: Progress) -> None:
    if not (shutil.which("node") and shutil.which("npm")):
        raise BuildError(
            "Azurite needs Node.js 20 or newer with npm, and one of them is not on PATH. "
            "On Debian: apt-get install nodejs npm"
        )
    progress("azurite: installing from npm (360 MB)")
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for name in _INPUTS:
        shutil.copyfile(_MODULE / name, partial / name)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    ran = subprocess.run(command, cwd=partial, capture_output=True, text=True, check=False)
    if ran.returncode:
        tail = "\n".join(ran.stderr.splitlines()[-10:])
        raise BuildError(f"npm ci of Azurite failed: is the npm registry reachable?\n{tail}")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
