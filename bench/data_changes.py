"""Trainings with only real data: worlds change at random, and processes start again.

Run as `.venv/bin/python bench/data_changes.py [--quick]`: it prints `data_samples_wrong`, the
samples that differ from the undisturbed order, over all formats and a mixture.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from bench.operator_bench import say
from spotrun_trainer.data.order.sharding import Share, block_of
from spotrun_trainer.data.source import Source, open_source

MICROBATCH, GLOBAL_BATCH = 2, 12
SIZES = 6
"""Processes, at most."""


def changing(open_it: Callable[[], Any], changes: int, seed: int) -> list[Any]:
    """Return the samples of committed steps, in order; each world has new processes.

    A world trains a few steps; sometimes it is lost during a step, which then does not count.
    """
    random = Random(seed)  # noqa: S311 - no secret
    used, step, state = list[Any](), 0, None
    for _ in range(changes):
        size = random.randint(1, SIZES)
        sources = [_opened(open_it, step, state) for _ in range(size)]
        for _ in range(random.randint(1, 3)):
            used += _step(sources, step)
            step += 1
        state = sources[0].state()
        if random.random() < 0.5:
            _step(sources[: random.randint(1, size)], step, size)
        for source in sources:
            source.close()
    return used


def undisturbed(open_it: Callable[[], Any], count: int) -> list[Any]:
    """Return the first samples as one process reads them."""
    source = _opened(open_it, 0, None)
    steps = -(-count // GLOBAL_BATCH)
    samples = [one for step in range(steps) for one in _step([source], step)]
    source.close()
    return samples


def _opened(open_it: Callable[[], Any], step: int, state: Any) -> Source:  # noqa: ANN401 - JSON
    source = open_source(open_it(), microbatch=MICROBATCH, seed=1, num_workers=0, collate=list)
    if state is not None:
        source.restore(state, step * GLOBAL_BATCH)
    return source


def _step(sources: list[Source], step: int, size: int | None = None) -> list[Any]:
    samples = list[Any]()
    for rank, source in enumerate(sources):
        share = Share(size or len(sources), rank)
        block = block_of(step * GLOBAL_BATCH, GLOBAL_BATCH, MICROBATCH, share)
        for batch in source.microbatches(block):
            assert isinstance(batch, list)
            samples += batch
    return samples


def main() -> None:
    from bench.data_formats import OPENERS, make_all  # noqa: PLC0415 - it measures with this

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5 changes instead of 200")
    changes = 5 if parser.parse_args().quick else 200
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SPOTRUN_DATA_CACHE"] = f"{folder}/cache"
        make_all(Path(folder), tokens=100_000)
        for name, open_it in OPENERS.items():
            place = Path(folder)
            trained = changing(lambda: open_it(place), changes, 7)  # noqa: B023 - called here
            right = undisturbed(lambda: open_it(place), len(trained))  # noqa: B023
            wrong = sum(
                not _equal(one, other)
                for one, other in zip(trained, right[: len(trained)], strict=True)
            )
            say(
                "data_samples_wrong",
                [float(wrong)],
                "samples",
                format=name,
                changes=changes,
                samples=len(trained),
            )


def _equal(one: Any, other: Any) -> bool:  # noqa: ANN401 - samples
    if isinstance(one, dict):
        return all(_equal(one[name], other[name]) for name in {**one, **other})
    return bool((one == other).all()) if hasattr(one, "shape") else one == other


if __name__ == "__main__":
    main()
