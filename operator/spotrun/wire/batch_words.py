"""The words for what another size means to a script that deals its samples to its processes."""


def batch_change(before: int, now: int, unit: str) -> str:
    """Say what changes where so many workers or processes train after so many others."""
    return (
        f"{now} {unit} train in place of {before}: unless the script makes up for it, a step takes "
        f"{_times(now, before)} as many samples (the global batch), an epoch has "
        f"{_times(before, now)} as many steps, samples come in another order, and random numbers "
        "are others. Nobody adjusts the learning rate. To hold the batch, write workers.min = "
        "workers.max, or in workers.sizes the numbers that divide it: kubectl tjob doctor"
    )


def _times(part: int, whole: int) -> str:
    return f"{part / whole:.3g} times"
