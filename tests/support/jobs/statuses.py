"""What tests and benches read in the status of a TrainingJob."""

from devcluster.client import Manifest


def failures_of(status: Manifest) -> int:
    """How often the job itself has failed; losses of nodes are none."""
    return int((status.get("restarts") or {}).get("failures", 0))
