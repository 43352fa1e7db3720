"""The stand-in for an image on process nodes: a Python with torch, and with nothing of ours."""

import os
import sys
import sysconfig
from pathlib import Path

_OURS = "spotrun"


def stock_image(folder: Path) -> str:
    """Make it in a folder; returns PATH as the image sets it.

    It is a virtual environment whose packages are links to those of this one. The package of ours
    is left out, and the files by which an editable installation is found.
    """
    packages = Path(sysconfig.get_paths()["purelib"])
    site = folder / packages.relative_to(sys.prefix)
    site.mkdir(parents=True)
    for entry in packages.iterdir():
        if _OURS not in entry.name:
            (site / entry.name).symlink_to(entry)
    programs = folder / "bin"
    programs.mkdir()
    interpreter = Path(os.path.realpath(sys.executable))
    (folder / "pyvenv.cfg").write_text(f"home = {interpreter.parent}\n")
    (programs / "python3").symlink_to(interpreter)
    return f"{programs}:/usr/bin:/bin"
