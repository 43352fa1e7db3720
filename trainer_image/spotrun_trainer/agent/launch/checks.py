"""The version of the image's torch, found without an import, which takes seconds."""

import re
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

OLDEST_TORCH = (2, 10)
_VERSION = re.compile(r"^__version__\s*(?::[^=]*)?=\s*['\"]([^'\"]+)", re.MULTILINE)
_NUMBERS = re.compile(r"(\d+)\.(\d+)")


def torch_version() -> str | None:
    """Return the version of torch in this Python; None without torch; it may be "unknown"."""
    spec = find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    for folder in spec.submodule_search_locations:
        file = Path(folder) / "version.py"
        if file.is_file() and (found := _VERSION.search(file.read_text())):
            return found[1]
    return "unknown"


def why_unusable(torch: str | None, python: str) -> str | None:
    """Return why nothing can train with this torch, and what to do; None if it is new enough.

    A version that cannot be parsed is accepted: torchrun will say what is wrong with it.
    """
    oldest = ".".join(map(str, OLDEST_TORCH))
    if torch is None:
        return (
            f"the image's Python ({python}) has no torch: install torch {oldest} or newer for it, "
            "or put a Python that has torch first in PATH"
        )
    numbers = _NUMBERS.match(torch)
    if numbers is None or (int(numbers[1]), int(numbers[2])) >= OLDEST_TORCH:
        return None
    return (
        f"the image has torch {torch}, but spotrun needs torch {oldest} or newer: "
        "use an image with a newer torch"
    )


def others_version(root: Path, path: list[str]) -> str | None:
    """Return the version of a spotrun that the image itself has; None if it has none."""
    elsewhere = [entry for entry in path if Path(entry).resolve() != root.resolve()]
    return next((one.version for one in distributions(name="spotrun", path=elsewhere)), None)
