"""`kubectl tjob estimate`: a user's job on many stretches of recorded markets."""

import multiprocessing
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from multiprocessing import resource_tracker
from threading import Thread

from spotrun.api.capacitypool import Capacity
from spotrun.money.price_sources import declared_price
from spotrun.simulate.estimate import manifest
from spotrun.simulate.estimate.replayable_job import Replayed, replayed
from spotrun.simulate.estimate.report import Estimate, as_json, as_text
from spotrun.simulate.estimate.storage import saves_of
from spotrun.simulate.market import recorded_markets
from spotrun.simulate.market.recorded_markets import RecordedMarket
from spotrun.simulate.market.virtual_market import Prices, Recordings
from spotrun.simulate.outcome import Outcome
from spotrun.simulate.replay_runs import Case, Starts
from spotrun.simulate.replay_runs import run as replay
from spotrun.simulate.scenario import Job, Rules

_MINUTE, _HOUR = 60.0, 3600.0
_POLICY = "spotrun"


@dataclass(frozen=True)
class _Stage:
    """A market, and the ticks from which the job is replayed on it."""

    market: RecordedMarket
    case: Case
    ticks: Sequence[int]
    fewer: str | None  # why there are fewer ticks than were asked for


@dataclass(frozen=True)
class Question:
    """The request on a command line."""

    job: Replayed
    stages: tuple[_Stage, ...]
    left_out: tuple[tuple[RecordedMarket, str], ...]  # with the reason
    as_json: bool


def understand(chosen: Namespace) -> Question:
    """Read flags, the job and the recordings; raises ValueError with what is wrong."""
    read = manifest.read(chosen.filename)
    job = replayed(
        read,
        work_hours=chosen.work_hours,
        checkpoint_seconds=chosen.checkpoint_minutes * _MINUTE,
        now=datetime.now(UTC),
    )
    saves, why = saves_of(
        read,
        gigabytes=chosen.checkpoint_gb,
        region=chosen.bucket_region,
        tables=chosen.price_tables,
        every_seconds=job.checkpoint_seconds,
        workers=job.job.workers,
    )
    job = replace(job, saves=saves, left_out=(*job.left_out, *filter(None, (why,))))
    rules = Rules(
        changeover_seconds=chosen.changeover_minutes * _MINUTE,
        checkpoint_seconds=job.checkpoint_seconds,
        assume_capacity=chosen.assume_capacity,
    )
    prices = _prices(chosen)
    stages, left_out = [], []
    for market in (
        [recorded_markets.given(chosen.traces)] if chosen.traces else recorded_markets.shipped()
    ):
        why = market.lacks(job.job, assume_capacity=chosen.assume_capacity)
        if why is None:
            stages.append(
                _stage(recorded_markets.priced(market, prices), job.job, rules, chosen.starts)
            )
        else:
            left_out.append((market, why))
    if not stages:
        raise ValueError("; ".join(f"{market.name}: {why}" for market, why in left_out))
    return Question(job, tuple(stages), tuple(left_out), chosen.json)


def _prices(chosen: Namespace) -> Prices:
    given = Prices(chosen.spot_price, chosen.on_demand_price)
    if chosen.pool is None:
        return given
    pool = manifest.read_pool(chosen.pool)
    declared = declared_price(pool.spec)
    if declared is None:
        raise ValueError(
            f"{chosen.pool}: CapacityPool {pool.metadata.name} has neither usdPerHour nor "
            "ownNodes: give one of them, or give a price with a flag"
        )
    if pool.spec.capacity is Capacity.SPOT:
        return replace(given, spot_usd_per_hour=declared.usd_per_hour.decimal)
    return replace(given, on_demand_usd_per_hour=declared.usd_per_hour.decimal)


def run(question: Question) -> int:
    """Replay and print."""
    estimates = [
        Estimate.of(stage.market, question.job, stage.case, outcomes, stage.fewer)
        for stage, outcomes in zip(question.stages, _outcomes(question.stages), strict=True)
    ]
    render = as_json if question.as_json else as_text
    print(render(question.job, estimates, question.left_out))
    return 0


def _stage(market: RecordedMarket, job: Job, rules: Rules, starts: int) -> _Stage:
    """Choose starts as far apart as possible, each with enough recording left for a late job.

    If spot is scarce, work takes twice its time; a job with a deadline may take all of that time.
    """
    due = job.deadline_seconds if job.deadline_seconds < inf else 0.0
    longest = max(2 * job.work_seconds, due) + 24 * _HOUR
    reach = min(longest, market.seconds)
    recordings = Recordings(market.traces, rules, Prices())
    room = (market.seconds - reach) // recordings.tick_seconds
    gaps = max(starts - 1, 1)
    ticks = sorted({round(number * room / gaps) for number in range(starts)})
    fewer = None
    if len(ticks) < starts:
        fewer = (
            f"{starts:,} were asked for, but a replay may take {longest / _HOUR:,.0f} h, and "
            f"{market.seconds / _HOUR:,.0f} h were recorded"
        )
    return _Stage(market, Case(replace(job, reach_seconds=reach), recordings, rules), ticks, fewer)


def _outcomes(stages: Sequence[_Stage]) -> list[list[Outcome]]:
    """Replay everything, on all processors; return the outcomes of each stage, in order."""
    number = sum(len(stage.ticks) for stage in stages)
    processes = min(os.cpu_count() or 1, number)
    with ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), initializer=_end_with_the_parent
    ) as pool:
        with _ctrl_c_held_back():
            parts = [[pool.submit(_play, one.case, tick) for tick in one.ticks] for one in stages]
        try:
            _show_progress(number, [future for futures in parts for future in futures])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        return [[future.result() for future in futures] for futures in parts]


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Block Ctrl-C for processes started here, until they can end without a traceback."""
    resource_tracker.ensure_running()  # starts a process, after which it lets Ctrl-C through
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end_with_the_parent() -> None:
    """End at once on Ctrl-C, or if the parent was killed, which the pool's queues do not show."""
    Thread(target=_end_after_the_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end_after_the_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "the pool started this process"
    parent.join()
    os._exit(1)


def _play(case: Case, tick: int) -> Outcome:
    return replay(_POLICY, case, Starts(tick))[0]


def _show_progress(number: int, futures: Sequence["Future[Outcome]"]) -> None:
    """Wait for all replays, and print the progress from the start."""
    _show(0, number)
    for done, future in enumerate(as_completed(futures), 1):
        future.result()
        _show(done, number)


def _show(done: int, number: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == number else ""
        print(f"\r{done}/{number} replays", end=end, file=sys.stderr, flush=True)
