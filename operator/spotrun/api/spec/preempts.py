"""Whether a job takes workers from jobs of lower priority."""

from spotrun.api.names import Choice


class Preempts(Choice):
    """The workers that a job may take from others while it lacks nodes."""

    NEVER = "Never", "nothing; the job waits until nodes are free"
    LOWER_PRIORITY = (
        "LowerPriority",
        (
            "workers of the lower-priority jobs that are cheapest to interrupt; these jobs shrink "
            "or are suspended"
        ),
    )
