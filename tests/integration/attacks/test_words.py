"""Words that are meant for somebody else: for the log, for a terminal, for who reads a status."""

import io
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from typing_extensions import override

from devcluster.client import Client, Manifest, at
from devcluster.kubelet.runtime import Exit
from devcluster.scripted import Context
from spotrun.runtime import log_format
from tests.integration.attacks.helpers import taken_over
from tests.support.cluster.operator_world import World
from tests.support.cluster.scripted_agent import Play

FORGED = "2001-01-01T00:00:00.000Z INFO    spotrun.runtime.controller: all is well"
HOSTILE = f'no\r\n{FORGED}\n"}}\n{{"level": "info"}}\x1b[2J\x1b]0;owned\x07\x85\u2028\u202e\u200b'
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [A-Z]+ +\S+( \[\S+( world \d+)?\])?: ")


@dataclass
class Books:
    """What the operator has logged, in both of its forms."""

    text: io.StringIO
    lines: io.StringIO

    def assert_clean(self) -> None:
        """Every line is one of the operator's, and shows nothing but what can be printed."""
        for line in self.text.getvalue().split("\n")[:-1]:
            assert _TIME.match(line) or line.startswith("  "), line
            assert line.isprintable(), line
            assert not line.startswith("2001"), line
        for line in self.lines.getvalue().split("\n")[:-1]:
            content = json.loads(line)
            known = {"time", "level", "logger", "message", "job", "worldNumber", "trace"}
            assert content.keys() <= known, line
            assert not content["time"].startswith("2001"), line


@pytest.fixture
def books() -> Iterator[Books]:
    books = Books(io.StringIO(), io.StringIO())
    handlers = [logging.StreamHandler(books.text), logging.StreamHandler(books.lines)]
    handlers[0].setFormatter(log_format.TextLines())
    handlers[1].setFormatter(log_format.JsonLines())
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.INFO)
    for handler in handlers:
        root.addHandler(handler)
    yield books
    for handler in handlers:
        root.removeHandler(handler)
    root.setLevel(level)


def texts(value: Any) -> Iterator[str]:
    """All texts in a manifest."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value


async def notes(world: World) -> list[str]:
    events = await world.kube.list(at("events", world.namespace, group="events.k8s.io/v1"))
    return [str(event.get("note", "")) for event in events if event["regarding"]["name"] == "job"]


async def test_a_worker_fails_with_a_message_that_forges_log_lines(
    world: World, books: Books
) -> None:
    """harmless: the message becomes one line in the log, in the status and in events"""
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    await world.create_job(workers={"min": 1, "max": 1, "replicas": 1})
    async with world.operator():
        await world.until_phase("Running")
        (pod,) = await world.pods()
        async with taken_over(world, pod) as traitor:
            failed = {"worldNumber": 1, "exitCode": 1, "message": HOSTILE}
            told = await traitor.report({"wire": 1, "ready": True, "arrived": 1, "failed": failed})
        assert told.status == 200
        job = await world.until_job(lambda s: "lastMessage" in s.get("restarts", {}))
    assert "all is well" in job["status"]["restarts"]["lastMessage"]
    assert all(text.isprintable() for text in texts(job["status"]))
    assert all(note.isprintable() for note in await notes(world))
    books.assert_clean()


class Liar(Play):
    """Its containers end at once, and what they leave behind is meant for somebody else."""

    @override
    def container(self, kube: Client) -> Any:
        async def end(_: Context) -> Exit:
            words = {"reason": "failed", "exitCode": 1, "message": HOSTILE}
            return Exit(1, message=f"{HOSTILE}\n{json.dumps(words)}\n")

        return end


async def test_a_container_ends_with_a_message_that_forges_log_lines(
    world: World, books: Books
) -> None:
    """harmless: the termination message becomes one line, too"""
    world.plays["job"] = Liar()
    await world.nodes.add("a", capacity={"cpu": "64", "memory": "64Gi"})
    await world.create_job(workers={"min": 1, "max": 1, "replicas": 1})
    async with world.operator():
        job = await world.until_job(lambda s: "lastMessage" in s.get("restarts", {}))
    assert "all is well" in job["status"]["restarts"]["lastMessage"]
    assert all(text.isprintable() for text in texts(job["status"]))
    books.assert_clean()


async def test_a_refused_template_contains_text_that_forges_log_lines(
    world: World, books: Books
) -> None:
    """harmless: Kubernetes quotes the text, and so does the log"""
    variable = {"name": HOSTILE, "value": HOSTILE}
    container = {"name": "trainer", "image": "x", "args": ["train.py"], "env": [variable]}
    template: Manifest = {"spec": {"containers": [container]}}
    await world.create_job(workers={"template": template})
    async with world.operator():
        job = await world.until_job(lambda s: s.get("reason") == "TemplateRefused")
    assert "env" in job["status"]["message"]
    books.assert_clean()


async def test_an_unreadable_template_contains_text_that_forges_log_lines(
    world: World, books: Books
) -> None:
    """harmless: the job's status says what is wrong with the template"""
    template: Manifest = {
        "spec": {
            "containers": [{"name": "trainer", "image": "x"}],
            "affinity": {"nodeAffinity": HOSTILE},
        }
    }
    await world.create_job(workers={"template": template})
    async with world.operator():
        job = await world.until_job(lambda s: s.get("reason") == "TemplateRefused")
    assert "$.affinity.nodeAffinity" in job["status"]["message"]
    books.assert_clean()
