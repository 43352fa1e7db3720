"""The command `python -m demo`, from a job to an exit code."""

import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from demo.claim import ClaimError, claim
from demo.closing import commands, held_words, last_lines, why_not
from demo.job import Job
from demo.operating import OperatorError
from demo.perform import StuckError, perform
from demo.recording import Recorder
from demo.scene import Scene
from demo.screens import Screen, open_screen
from demo.stage import Stage, open_stage
from demo.summary import figures, report
from devcluster import binaries
from devcluster.client import ApiError
from devcluster.cluster import Cluster
from devcluster.controlplane import ControlPlaneError
from devcluster.reaper import MARKER
from devcluster.s3 import program
from devcluster.s3.server import serving

_BUCKET = "demo"
_ERRORS = (
    ValueError,
    RuntimeError,  # of a kubectl that failed, with its message
    TimeoutError,
    binaries.BuildError,
    ControlPlaneError,
    ApiError,
    ClaimError,
    OperatorError,
    StuckError,
)


@dataclass(frozen=True)
class Options:
    """The options that the demo was started with."""

    job: Job
    keep: bool = False
    plain: bool = False
    record: Path | None = None
    s3: bool = False


def run(options: Options, pid_file: Path) -> int:
    """Run the only demo of this file; returns the exit code."""
    try:
        with claim(pid_file):
            return _demo(options)
    except _ERRORS as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _demo(options: Options) -> int:
    screen = _screen(options)
    try:
        binaries.ensure(binaries.pin(), screen.tell)
        screen.tell("starting Kubernetes: etcd, API server, controller manager, scheduler")
        with Cluster(progress=screen.tell) as cluster:
            # Logs of libraries go to the cluster's directory: the screen is for the job.
            logging.basicConfig(filename=cluster.directory / "demo.log")
            with _checkpoints_of(options, cluster, screen) as job:
                return asyncio.run(_play(cluster, job, screen, keep=options.keep))
    finally:
        screen.close()


@contextmanager
def _checkpoints_of(options: Options, cluster: Cluster, screen: Screen) -> Iterator[Job]:
    """Give the job its place for checkpoints: its volume, or a bucket while the block lasts."""
    if not options.s3:
        yield options.job
        return
    program.ensure(screen.tell)
    with serving(cluster.directory / "s3", {MARKER: cluster.marker}) as server:
        server.make_bucket(_BUCKET)
        screen.tell(f"an S3 server (versitygw) at {server.url} stores checkpoints: no volume")
        yield options.job.in_bucket(f"s3://{_BUCKET}/checkpoints", server.environment())


def _screen(options: Options) -> Screen:
    screen = open_screen(plain=options.plain)
    return Recorder(screen, options.record) if options.record else screen


async def _play(cluster: Cluster, job: Job, screen: Screen, *, keep: bool) -> int:
    async with open_stage(cluster, job, screen.tell) as stage:
        try:
            outcome = await perform(stage, screen)
        except StuckError as error:
            await _say_why(stage, error.scene, "")
            raise
        finally:
            screen.close()
        summed = figures(outcome.scene, outcome.steps, outcome.done)
        screen.sum_up(report(outcome.scene, summed))
        if not outcome.is_success:
            await _say_why(stage, outcome.scene, why_not(outcome))
        if keep:
            _say(*held_words(cluster.environment, job))
            with suppress(asyncio.CancelledError):  # this ends the wait in order
                await asyncio.get_running_loop().create_future()
        else:
            _say("To look around: make demo KEEP=1, and then", *commands(job))
    return 0 if outcome.is_success else 1


async def _say_why(stage: Stage, scene: Scene, why: str) -> None:
    logs = [(worker.pod, await stage.last_lines(worker.pod)) for worker in scene.workers]
    if not scene.phase:  # the operator has written nothing about the job
        logs.append(("the operator", stage.operator.last_lines()))
    _say(why, *last_lines(logs), "")


def _say(*lines: str) -> None:
    print("\n".join(lines), flush=True)
