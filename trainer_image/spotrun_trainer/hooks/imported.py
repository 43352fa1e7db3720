"""The modules that a script has imported, noted for the processes that may replace it.

An interpreter that is begun ahead imports them, too (`agent/processes/warm/imports_ahead.py`), but
only those of installed packages: the script's own code does not run before the script.
"""

import json
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

IMPORTED_FILE = "imported.json"


@dataclass(frozen=True)
class Imported:
    """The modules of a script's process, in the order in which it imported them."""

    installed: tuple[str, ...] = ()
    own: tuple[str, ...] = ()  # packages that are not installed: next to the script, in PYTHONPATH
    is_too_late: bool = False  # the script changes variables that these modules read

    @staticmethod
    def read(directory: Path) -> "Imported":
        """Return what was noted; empty if nothing was."""
        try:
            found = json.loads((directory / IMPORTED_FILE).read_text())
            return Imported(
                tuple(found["installed"]), tuple(found["own"]), bool(found["is_too_late"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            return Imported()

    def write(self, directory: Path) -> None:
        """Write the file, all at once, if its content is new."""
        if self == Imported.read(directory):
            return  # readers that wait for a change see none
        draft = directory / f"{IMPORTED_FILE}.{os.getpid()}"
        draft.write_text(json.dumps(vars(self)))
        draft.replace(directory / IMPORTED_FILE)


def note_imported(directory: Path) -> None:
    """Note what this process has imported, unless it is of no use to the next one."""
    if not Imported.read(directory).is_too_late:
        imported_in(dict(sys.modules), folders_of_packages()).write(directory)


def imported_in(modules: Mapping[str, ModuleType | None], folders: Iterable[Path]) -> Imported:
    """Divide modules by where they come from."""
    places = tuple(f"{folder}/" for folder in folders)
    installed: list[str] = []
    own: dict[str, None] = {}
    for name, module in modules.items():
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        package = name.partition(".")[0]
        if isinstance(origin, str) and origin.startswith(places):
            installed.append(name)
        elif isinstance(origin, str) and package not in sys.stdlib_module_names:
            own[package] = None
    return Imported(tuple(installed), tuple(own))


def folders_of_packages() -> frozenset[Path]:
    """Return the folders into which packages are installed."""
    paths = sysconfig.get_paths()
    known = [paths["purelib"], paths["platlib"], *site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        known.append(site.getusersitepackages())
    return frozenset(map(Path, known))
