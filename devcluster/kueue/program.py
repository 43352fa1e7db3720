"""Kueue: built once from a pinned Go module and cached, with its CRDs."""

from pathlib import Path

from devcluster.golang import Program, Progress, cached

PROGRAM = Program(
    "kueue",
    "sigs.k8s.io/kueue/cmd/kueue",
    Path(__file__).parent,
    cold_seconds=160,
    manifests=("config/components/crd/bases", "config/components/webhook/manifests.yaml"),
)


def ensure(progress: Progress) -> Path:
    """Return the folder of the program and of its manifests, after building it once."""
    return cached(PROGRAM, progress)
