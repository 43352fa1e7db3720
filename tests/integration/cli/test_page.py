"""The page at a real cluster, with a job that loses a node, and in a browser if one is here."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.integration.money.helpers import workers
from tests.integration.spot.helpers import add_node
from tests.support.browser.chromium import PROGRAM, Tab, opened_tab
from tests.support.cluster.operator_world import World
from tests.support.cluster.scripted_agent import Times, worker_id_of
from tests.support.processes.plugin import begun, ended

PRICE = {"spotrun.dev/usd-per-hour": "8"}
PICTURES = os.environ.get("SPOTRUN_PICTURES")
"""A folder for screenshots, for the documentation."""

AXE = os.environ.get("SPOTRUN_AXE")
"""The file axe.min.js of npm's axe-core, which looks for faults that keep people out."""


@asynccontextmanager
async def a_job_that_loses_a_node(world: World) -> AsyncIterator[None]:
    for name, zone in (("a", "us-east-1a"), ("b", "us-east-1b"), ("c", "us-east-1a")):
        await add_node(world, name, zone=zone, annotations=PRICE, room={"cpu": "2"})
    play = world.play()
    play.step_times = lambda _: Times(0.05)
    play.metrics["loss"] = 2.0
    play.reported_steps = 1_000_000 if PICTURES else play.reported_steps
    # Where a metric is waited for, a status is written every 5 s: pictures have a curve.
    wait: dict[str, Any] = (
        {"stopWhen": {"metric": "loss", "noBetterSteps": 900_000}} if PICTURES else {}
    )
    await world.create_job(workers={**workers(5), "min": 2}, **wait)
    await world.create_limit(limitUsd="500")
    async with world.operator():
        await world.until_job(
            lambda s: "usd" in s.get("cost", {}) and "step" in s.get("progress", {})
        )
        nodes = {worker_id_of(pod): pod["spec"]["nodeName"] for pod in await world.pods()}
        for worker_id in nodes:  # whichever is rank 0 afterwards
            world.agent(worker_id).context.log("loss <b>0.5</b>")
        both = Counter(node for node in nodes.values() if node != nodes[0]).most_common(1)
        [(lost, _)] = both  # the node with two workers
        await world.nodes[lost].vanish(delete_node=True)
        await world.until_job(lambda s: s.get("interruptions", {}).get("count", 0) >= 1)
        await world.until_job(lambda s: s["world"]["number"] >= 2 and s["world"]["active"])
        yield


@asynccontextmanager
async def page_of(world: World, *words: str) -> AsyncIterator[str]:
    """Start the page; yields the address that it prints. Ctrl-C ends it, and says nothing more."""
    process = await begun(world.cluster, "ui", "--no-open", *words)
    try:
        assert process.stdout is not None
        address = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        assert address, (await ended(process)).err
        yield address
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        left = await asyncio.wait_for(ended(process), 20)
    assert (left.code, left.err) == (0, "")


async def test_a_job_that_has_lost_a_node_is_seen_in_the_list_and_in_its_timeline(
    world: World,
) -> None:
    async with (
        a_job_that_loses_a_node(world),
        page_of(world) as address,
        visitor(address) as (session, root),
    ):
        rows = await until(session, f"{root}api/fleet", lambda m: m.get("jobs"))
        job = f"{root}api/jobs/{world.namespace}/job"
        seen = await until(session, job, has_all)
        async with session.get(f"{job}/log") as answer:
            log = await answer.json()
        async with session.get(f"{root}api/jobs/{world.namespace}/none") as answer:
            assert answer.status == 404
    [row] = [one for one in rows["jobs"] if one["namespace"] == world.namespace]
    assert (row["name"], row["losses"] >= 1, row["usdPerHour"] > 0) == ("job", True, True)
    marks = seen["job"]["timeline"]["marks"]
    told = max(mark["at"] for mark in marks if mark["kind"] == "loss")
    lost = lost_lives(seen)
    assert "Spot" in {one["capacity"] for one in lost}
    assert all(one["begin"] < one["end"] <= told for one in lost)  # pods go a minute later
    kinds = {mark["kind"] for mark in marks}
    assert {"loss", "world"} <= kinds
    assert log["lines"][0]["text"] == "loss <b>0.5</b>"


def has_all(message: dict[str, Any]) -> bool:
    """Whether the loss is seen, and the zone of each node was read, which takes a moment."""
    zones = {one["zone"] for one in message["job"]["workers"] if one["rank"] is not None}
    is_lost = len(lost_lives(message)) == 2 and message["job"]["row"]["losses"] > 0
    return is_lost and bool(zones) and zones <= {"us-east-1a", "us-east-1b"}


def lost_lives(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in message["job"]["timeline"]["lives"] if one["isLost"]]


@asynccontextmanager
async def visitor(address: str) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """Come in as a browser does."""
    jar = aiohttp.CookieJar(unsafe=True)  # of addresses, too
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(address) as answer:
            assert answer.status == 200, await answer.text()
            root = (await answer.text()).split("url=")[1].split('"')[0]
        yield session, f"{address.partition('/enter/')[0]}{root}"


async def until(
    session: aiohttp.ClientSession, path: str, holds: Callable[[dict[str, Any]], Any]
) -> dict[str, Any]:
    """Follow a stream to the first message that holds."""
    async with asyncio.timeout(60), session.get(path) as answer:
        assert answer.content_type == "text/event-stream", await answer.text()
        while True:
            line = await answer.content.readuntil(b"\n\n")
            if line.startswith(b"data: "):
                message: dict[str, Any] = json.loads(line[6:])
                if holds(message):
                    return message


async def test_a_user_sees_what_their_rights_allow_and_is_told_what_they_hide(
    world: World, tmp_path: Path
) -> None:
    user = f"{world.namespace}:default"
    for kubectl in (
        ("create", "role", "jobs", "--verb=get,list,watch", "--resource=trainingjobs.spotrun.dev"),
        ("create", "rolebinding", "jobs", "--role=jobs", f"--serviceaccount={user}"),
    ):
        world.cluster.kubectl("-n", world.namespace, *kubectl)
    made = world.cluster.kubectl("-n", world.namespace, "create", "token", "default")
    config = json.loads(world.cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": made.stdout.strip()}
    config["contexts"][0]["context"]["namespace"] = world.namespace
    file = tmp_path / "config"
    file.write_text(json.dumps(config))
    await world.create_job(workers=workers(1))
    async with (
        page_of(world, "--kubeconfig", str(file)) as address,
        visitor(address) as (session, root),
    ):
        rows = await until(session, f"{root}api/fleet", lambda m: m.get("jobs"))
        path = f"{root}api/jobs/{world.namespace}/job"
        seen = await until(session, path, lambda m: m["job"])
        async with session.get(f"{path}/log") as answer:
            log = await answer.json()
    assert [row["key"] for row in rows["jobs"]] == [f"{world.namespace}/job"]
    assert [note.split(":")[0] for note in rows["notes"]] == [
        f"Your rights let you see the jobs of namespace {world.namespace}, and of no other.",
        "Your rights do not let you list CapacityPools",
        "Your rights do not let you list SpendLimits, so none is shown.",
    ]
    assert seen["job"]["notes"][:2] == [
        "Your rights do not let you list pods here.",
        "Your rights do not let you list Events here.",
    ]
    assert "not allowed" in log["why"]


@pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine (Debian's: chromium)")
async def test_a_browser_shows_what_has_happened_and_obeys_keys(world: World) -> None:
    here = ("-n", world.namespace)  # what other tests have left is not in the list
    async with (
        a_job_that_loses_a_node(world),
        page_of(world, *here) as address,
        opened_tab() as tab,
    ):
        await tab.look(width=1280, height=900)
        await tab.visit(address)
        await tab.until("document.querySelector('.jobs a[data-key]') !== null")
        painted = await tab.value(
            "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
        await _picture(tab, "fleet")
        await tab.until("document.body.textContent.includes('of $500.00 a month')")
        faults = await _faults(tab)
        await tab.press("/")
        await tab.until("document.activeElement.type === 'search'")
        await tab.press("Escape")
        await tab.press("j")
        await tab.until("document.activeElement.matches('.jobs a')")
        await tab.press("Enter")
        await tab.until("document.querySelectorAll('.timeline path.loss').length > 1")
        await tab.until("document.querySelector('pre').textContent.includes('<b>0.5</b>')")
        assert await tab.value("document.querySelectorAll('.timeline rect.bar').length") >= 4
        await tab.until("document.querySelector('.timeline path.learned') !== null")
        await _learn(world)
        await _picture(tab, "job")
        faults += await _faults(tab)
        await tab.press("Escape")
        await tab.until("document.querySelector('.jobs a[data-key]') !== null")
        assert (tab.complaints, faults) == ([], [])
    assert painted < 5000  # its figure is bench/ui.py's


async def _faults(tab: Tab) -> list[str]:
    """Return the serious faults that axe finds, light and dark; none where it is not here."""
    if AXE is None:
        return []
    await tab.value(await asyncio.to_thread(Path(AXE).read_text) + "; 0")
    found = []
    for is_dark in (False, True):
        await tab.look(width=1280, height=900, is_dark=is_dark)
        found += await tab.value(
            "axe.run().then((all) => all.violations"
            ".filter((one) => ['serious', 'critical'].includes(one.impact))"
            ".map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(' ')}`))"
        )
    await tab.look(width=1280, height=900)
    return found


async def _learn(world: World) -> None:
    """Have a loss that falls for a minute, for a picture."""
    for number in range(120 if PICTURES else 0):
        world.play().metrics["loss"] = 0.4 + 1.6 * 0.97**number + 0.05 * (number % 3)
        await asyncio.sleep(0.5)


async def _picture(tab: Tab, name: str) -> None:
    if PICTURES is None:
        return
    for look, width, is_dark in (
        ("light", 1280, False),
        ("dark", 1280, True),
        ("phone", 390, False),
    ):
        await tab.look(width=width, height=900 if width > 600 else 844, is_dark=is_dark)
        await asyncio.sleep(2.5)  # the picture is drawn anew to its width
        await tab.picture(Path(PICTURES, f"{name}-{look}.png"))
    await tab.look(width=1280, height=900)
