"""Restarts of containers: whether, and after how long. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """The kubelet's own delays, in seconds; tests may shorten them."""

    restart_backoff: float = 10  # before the second restart of a container, then doubled each time
    restart_backoff_max: float = 300
    restart_backoff_reset: float = 600  # a run of this length resets the delay
    start_retry: float = 10  # after a StartError, then doubled each time
    start_retry_max: float = 300
    lease_renewal: float = 10
    lease_duration: int = 40


def is_restarted(policy: str, exit_code: int) -> bool:
    """Whether a container that ended is started again under a restart policy."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def restart_delay(failures: int, timing: Timing) -> float:
    """Return the seconds before the next run; the first restart is immediate, as a kubelet's is."""
    if failures <= 1:
        return 0
    return min(timing.restart_backoff_max, timing.restart_backoff * 2.0 ** min(failures - 2, 32))


def start_retry_delay(attempts: int, timing: Timing) -> float:
    """Return the seconds before the next attempt at a start that failed `attempts` times."""
    return min(timing.start_retry_max, timing.start_retry * 2.0 ** min(attempts - 1, 32))
