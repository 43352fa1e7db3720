"""The text about what another size means to a script that divides samples by its processes."""


def batch_change(before: int, now: int, unit: str) -> str:
    """Say what changes if the number of workers or processes that train has changed."""
    return (
        f"{now} {unit} train instead of {before}: unless the script adapts to this, a step takes "
        f"{_times(now, before)} as many samples (the global batch), an epoch has "
        f"{_times(before, now)} as many steps, and the order of the samples and the random numbers "
        "are different. The learning rate is not adjusted. To keep the batch, set workers.min = "
        "workers.max, or list in workers.sizes the numbers that divide it: kubectl tjob doctor"
    )


def _times(part: int, whole: int) -> str:
    return f"{part / whole:.3g} times"
