"""The interval between saves: the cost of a save against the cost of a loss."""

import math


def interval_seconds(
    upload: float, stall: float, interference: float, mean_seconds_between_losses: float
) -> float:
    """Return the interval that loses the least time; all arguments are in seconds.

    Young's rule, sqrt(2 C M): a save costs C = `stall` (training waits) + `interference` (steps
    that run during the upload take longer), and a loss costs half an interval on average. Only one
    upload runs at a time, so the interval is never shorter than one. Only losses that leave no
    whole replica count; other losses lose no step.
    """
    for name, value in list(locals().items()):
        if not value >= 0:
            raise ValueError(f"{name} is a number of seconds, not {value}")
    cost = stall + interference
    return max(upload, math.sqrt(2 * mean_seconds_between_losses * cost) if cost else 0.0)
