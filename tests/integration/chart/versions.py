"""The version that a release is upgraded from: chart and operator of an earlier commit."""

import io
import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from charts.manifests import CHART

ROOT = CHART.parents[1]
BEFORE = os.environ.get("SPOTRUN_UPGRADE_FROM", "")
"""A commit or tag; without it a release is upgraded from this very checkout, to other values."""


@dataclass(frozen=True)
class Version:
    """A version of the repository, in a folder."""

    root: Path

    @property
    def chart(self) -> Path:
        """The version's chart."""
        return self.root / CHART.relative_to(ROOT)

    @property
    def modules(self) -> str:
        """The PYTHONPATH with which Python finds its operator."""
        return f"{self.root / 'operator'}:{self.root / 'trainer_image'}"


def version_before(folder: Path) -> Version:
    """Return the version to upgrade from, unpacked into a folder."""
    if not BEFORE:
        return Version(ROOT)
    packed = subprocess.run(
        ["git", "archive", BEFORE], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder / "before", filter="data")
    return Version(folder / "before")
