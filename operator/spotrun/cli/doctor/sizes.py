"""Sizes at which a job's global batch stays the same. Pure."""

from dataclasses import dataclass

from spotrun.api.spec.workers import Workers
from spotrun.state.sizes import allowed, wanted


@dataclass(frozen=True)
class Advice:
    """The proposal of sizes for a script that divides its samples among its processes."""

    why: str
    change: str = ""  # the lines to write under spec.workers; empty: none are needed


def advise(workers: Workers, processes: int, batch: int | None) -> Advice:
    """Propose the sizes at which a job keeps its batch: those that divide it, or only one."""
    sizes = allowed(workers)
    if len(sizes) == 1:
        return Advice(f"the job has one size, {sizes[0]}: its batch is always the same")
    if batch is None:
        return _only(
            wanted(workers),
            "a script with a fixed number of samples per process has another global batch at "
            f"each of {len(sizes)} sizes. Keep one size; or, if the script divides a batch by "
            "the number of its processes, give that batch with --batch",
        )
    dividing = [size for size in sizes if batch % (size * processes) == 0]
    if len(dividing) == len(sizes):
        return Advice(f"{batch} samples can be divided at every size that is allowed")
    if len(dividing) > 1:
        others = len(sizes) - len(dividing)
        return Advice(
            f"{batch} samples cannot be divided evenly at {others} of the {len(sizes)} sizes that "
            f"are allowed, with {processes} processes per worker",
            f"sizes: [{', '.join(map(str, dividing))}]",
        )
    if dividing:
        return _only(dividing[0], f"{batch} samples can be divided evenly at one size only")
    return Advice(
        f"{batch} samples can be divided evenly at none of the {len(sizes)} sizes that are "
        f"allowed, with {processes} processes per worker: choose another batch"
    )


def _only(size: int, why: str) -> Advice:
    return Advice(why, f"min: {size}\nmax: {size}")
