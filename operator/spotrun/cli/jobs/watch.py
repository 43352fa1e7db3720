"""`kubectl tjob watch`: the screen of a job, drawn again as the job changes."""

import asyncio
import sys
from argparse import Namespace
from contextlib import aclosing, suppress
from shutil import get_terminal_size

from spotrun.api.names import Phase
from spotrun.cli.cluster.exit_codes import DONE, REFUSED
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.jobs.model import Job
from spotrun.cli.jobs.reading import events_of, places_of, pools, shown_pods
from spotrun.cli.jobs.screens.detail import Facts, detail
from spotrun.cli.jobs.watching import states_of, unanswered
from spotrun.cli.text.look import Look, look_of, printable
from spotrun.cli.text.words import count, usd
from spotrun.kube.errors import Retryable

_OVER = (Phase.SUCCEEDED, Phase.FAILED)
_TICK_SECONDS = 2.0
_CLEAR = "\x1b[H\x1b[J"


def run(chosen: Namespace) -> int:
    """Watch until the job is over, or the user presses Ctrl-C."""
    try:
        return ask(chosen, lambda cluster: watched(cluster, chosen.name))
    except KeyboardInterrupt:
        print(f"\n{chosen.name} continues; `kubectl tjob watch {chosen.name}` shows it again")
        return DONE


async def watched(cluster: Cluster, name: str) -> int:
    """Draw a job until it is over; returns 1 if it has failed."""
    is_screen = sys.stdout.isatty()
    last = ""
    job: Job | None = None
    async with aclosing(states_of(cluster, name, away=unanswered)) as states:
        upcoming = asyncio.ensure_future(anext(states, None))
        try:
            while True:
                done, _ = await asyncio.wait({upcoming}, timeout=_TICK_SECONDS)
                if done:
                    job = upcoming.result()
                    if job is None:
                        print(f"{name} is deleted")
                        return DONE
                    upcoming = asyncio.ensure_future(anext(states, None))
                if job is not None and (done or is_screen):
                    with suppress(Retryable):  # the last screen stays
                        last = await _draw(cluster, job, last, is_screen=is_screen)
                if job is not None and job.status.phase in _OVER:
                    return REFUSED if job.status.phase == Phase.FAILED else DONE
        finally:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)


async def _draw(cluster: Cluster, job: Job, last: str, *, is_screen: bool) -> str:
    """Draw a screen; without a terminal print a line if it says something new."""
    look = look_of(sys.stdout)
    if not is_screen:
        line = in_a_line(job)
        if line != last:
            print(f"{look.now:%H:%M:%S} {line}", flush=True)
        return line
    name = job.metadata.name
    pods, found, events = await asyncio.gather(
        shown_pods(cluster, name), pools(cluster), events_of(cluster, job)
    )
    places = await places_of(cluster, pods)
    room = get_terminal_size().lines - 2
    lines = detail(Facts(job, pods, found, events, places), look)[:room]
    print(_CLEAR + "\n".join([*lines, "", _keys(look, name)]), end="", flush=True)
    return ""


def in_a_line(job: Job) -> str:
    """Return the state of a job in a line."""
    status = job.status
    parts = [status.phase or "not seen yet", f"workers {status.workers.summary or '0'}"]
    if status.world and status.world.number:
        parts.append(f"world {status.world.number}")
    if status.progress.step is not None:
        total = f"/{count(status.progress.total_steps)}" if status.progress.total_steps else ""
        parts.append(f"step {count(status.progress.step)}{total}")
    if status.cost.usd is not None:
        parts.append(f"{usd(status.cost.usd)} at {usd(status.cost.usd_per_hour)}/h")
    if status.message and status.phase != Phase.RUNNING:
        parts.append(status.message)
    return printable(", ".join(parts))


def _keys(look: Look, name: str) -> str:
    return look.paint(f"Ctrl-C ends this screen; {name} continues", "dim")
