"""Whether a job takes workers from jobs of lower priority."""

from spotrun.api.names import Choice


class Preempts(Choice):
    """The workers that a job may take from others while it lacks nodes."""

    NEVER = "Never", "nothing: it waits until nodes are free"
    LOWER_PRIORITY = (
        "LowerPriority",
        "workers of the cheapest to interrupt of lower priority, which shrink, or are suspended",
    )
