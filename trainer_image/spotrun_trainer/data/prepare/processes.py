"""Work on groups in several processes, which returns each group when it is done."""

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from pathlib import Path

from spotrun_trainer.data.prepare.plan import Group, Settings
from spotrun_trainer.data.prepare.tokenizers import Tokenizer, tokenizer_of
from spotrun_trainer.data.prepare.work import Made, make_shards
from spotrun_trainer.process.parent import die_with_parent


def each_done(
    groups: Sequence[Group], settings: Settings, output: Path, workers: int
) -> Iterator[tuple[Group, list[Made]]]:
    """Yield each group when it is done; the rest is dropped if the caller ends early."""
    if workers == 1 or len(groups) < 2:
        for group in groups:
            yield group, _work(group, settings, output)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(groups)), context, _begin) as pool:
        futures = {pool.submit(_work, group, settings, output): group for group in groups}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as error:
            raise ValueError(
                "a preparing process was killed, most likely because memory ran out: try fewer "
                "--workers; finished work is kept"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, and ends this process
    die_with_parent()


def _work(group: Group, settings: Settings, output: Path) -> list[Made]:
    return make_shards(group, settings, _tokenizer(settings.tokenizer), output)


@lru_cache(maxsize=1)
def _tokenizer(name: str) -> Tokenizer:
    return tokenizer_of(name)
