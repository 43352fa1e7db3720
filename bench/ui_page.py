"""The page's figures, in a cluster of many jobs: its size, its first paint and its updates.

An update is timed from before the write of a job's status to the API server until the new text
is in the document of a real browser (Debian's chromium), or in the stream if none is installed.
"""

import asyncio
import gzip
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from bench.operator_bench import percentile, say
from devcluster.client import Client, at
from devcluster.cluster import Cluster
from spotrun.cli.page.server import assets
from tests.support.browser.chromium import PROGRAM, Tab, opened_tab
from tests.support.cluster.operator_world import GROUP
from tests.support.processes.plugin import begun

_ROWS = "document.querySelectorAll('.jobs a[data-key]').length"
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000"
_SCROLL = """
new Promise((done) => {
  const longest = { seconds: 0, last: performance.now() };
  let frames = 0;
  const step = (now) => {
    longest.seconds = Math.max(longest.seconds, (now - longest.last) / 1000);
    longest.last = now;
    scrollBy(0, 400);
    frames += 1;
    if (frames < 60) requestAnimationFrame(step);
    else { scrollTo(0, 0); done(longest.seconds); }
  };
  requestAnimationFrame(step);
})"""


async def measure(cluster: Cluster, name: str, namespace: str, jobs: int, times: int) -> None:
    """Open the page of all jobs, and change one of them repeatedly."""
    _say_sizes()
    async with _page(cluster) as address, Client(cluster.admin) as kube:
        path = f"{at('trainingjobs', namespace, group=GROUP)}/{name}/status"

        async def change(number: int) -> float:
            began = time.time()
            cost = {"usd": f"{7_000_000 + number}"}
            await kube.patch(path, {"status": {"cost": cost}})
            return began

        if PROGRAM is None:
            await _in_the_stream(address, change, jobs, times)
            return
        async with opened_tab() as tab:
            await _in_a_browser(tab, address, change, jobs, times)


def _say_sizes() -> None:
    """Print the gzipped size of what a browser loads (the server sends it uncompressed)."""
    files = assets()
    scripts = b"".join(text for name, text in files.items() if name.endswith(".js"))
    say("ui_bundle_kb", len(gzip.compress(scripts)) / 1000, "kB")
    say("ui_assets_kb", len(gzip.compress(b"".join(files.values()))) / 1000, "kB")


async def _in_a_browser(tab: Tab, address: str, change: Any, jobs: int, times: int) -> None:  # noqa: ANN401
    await tab.look(width=1280, height=900)
    began = time.time()
    await tab.visit(address)
    await tab.until(f"{_ROWS} > 0")
    say("ui_rows_seconds", time.time() - began, "s", jobs=jobs)
    say("ui_first_paint_seconds", await tab.value(_PAINT), "s", jobs=jobs)
    say("ui_slowest_frame_seconds", await tab.value(_SCROLL), "s", jobs=jobs)
    if folder := os.environ.get("SPOTRUN_PICTURES"):
        await _pictures(tab, Path(folder))
    await tab.value("document.querySelector('[data-sort=cost] button').click()")
    taken = []
    for number in range(times):
        text = f"${7_000_000 + number:,}"
        waiting = f"""
        new Promise((done) => {{
          const look = () => document.querySelector('.jobs').textContent.includes('{text}')
            && (watcher.disconnect(), done(Date.now() / 1000));
          const watcher = new MutationObserver(look);
          watcher.observe(document.body, {{ subtree: true, childList: true, characterData: true }});
          look();
        }})"""
        shown = asyncio.create_task(tab.value(waiting))
        began = await change(number)
        taken.append(await shown - began)
    _say_updates(taken, jobs, "browser")


async def _in_the_stream(address: str, change: Any, jobs: int, times: int) -> None:  # noqa: ANN401
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(address) as answer:
            root = (await answer.text()).split("url=")[1].split('"')[0]
        stream = f"{address.partition('/enter/')[0]}{root}api/fleet"
        async with session.get(stream, timeout=aiohttp.ClientTimeout(total=None)) as answer:
            await answer.content.readuntil(b"\n\n")
            taken = []
            for number in range(times):
                began = await change(number)
                while f'"usd":{7_000_000 + number}.0'.encode() not in (
                    await answer.content.readuntil(b"\n\n")
                ):
                    pass
                taken.append(time.time() - began)
    _say_updates(taken, jobs, "stream")


def _say_updates(taken: list[float], jobs: int, seen_in: str) -> None:
    p95 = percentile(taken, 95)
    say("ui_update_p95_seconds", p95, "s", jobs=jobs, seen_in=seen_in, repeats=len(taken))


async def _pictures(tab: Tab, folder: Path) -> None:
    for look, width, is_dark in (
        ("light", 1280, False),
        ("dark", 1280, True),
        ("phone", 390, False),
    ):
        await tab.look(width=width, height=820, is_dark=is_dark)
        await tab.until(f"{_ROWS} > 0")
        await tab.value("new Promise((done) => setTimeout(done, 500))")
        await tab.picture(folder / f"many-{look}.png")
    await tab.look(width=1280, height=900)


@asynccontextmanager
async def _page(cluster: Cluster) -> AsyncIterator[str]:
    process = await begun(cluster, "ui", "--no-open")
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.send_signal(signal.SIGINT)
        await process.communicate()
