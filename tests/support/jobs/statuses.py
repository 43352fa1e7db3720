"""The parts of a TrainingJob's status that tests and benches read."""

from devcluster.client import Manifest


def failures_of(status: Manifest) -> int:
    """Return how often the job itself has failed; losses of nodes are no failures."""
    return int((status.get("restarts") or {}).get("failures", 0))
