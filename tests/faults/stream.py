"""One watch stream through the proxy, with its faults."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
from aiohttp import web

from tests.faults.rules import Rule, failure


class Stream:
    """Passes on the lines of one watch until something strikes."""

    def __init__(
        self,
        request: web.Request,
        upstream: aiohttp.ClientResponse,
        rules: Callable[[], list[Rule]],
    ) -> None:
        self._request = request
        self._upstream = upstream
        self._rules = rules
        self._response = web.StreamResponse(headers={"Content-Type": "application/json"})
        self._sent: list[bytes] = []
        self._version = request.query.get("resourceVersion", "0")  # of what was passed on last
        self._stalled: asyncio.Event | None = None
        self._quiet: asyncio.Task[None] | None = None  # ends the time in which only bookmarks come
        self._rules_changed = asyncio.Event()
        self._cut = False

    def poke(self) -> None:
        """Look at the rules again: some strike without an event."""
        self._rules_changed.set()

    async def run(self) -> web.StreamResponse:
        """Serve the stream to its end."""
        await self._response.prepare(self._request)
        faults = asyncio.create_task(self._strike_at_once())
        try:
            rest = b""
            async for chunk in self._upstream.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    await self._pass_on(line)
        except (ConnectionError, aiohttp.ClientError):
            pass  # cut by us, or the client has gone, or the API server was killed
        finally:
            faults.cancel()
            if self._quiet is not None:
                self._quiet.cancel()
        return self._response

    async def _pass_on(self, line: bytes) -> None:
        event = json.loads(line)
        struck = [r for r in self._rules() if not r.at_once and r.strikes(event)]
        actions = {rule.action for rule in struck}
        self._hold(struck)
        if self._stalled is not None:
            await self._stalled.wait()
        if self._quiet is not None:
            await self._say_that_nothing_happened(event["object"])
            return
        if "swallow" not in actions:
            await self._send(line)
            self._sent.append(line)
            self._version = (
                event["object"].get("metadata", {}).get("resourceVersion", self._version)
            )
        if "duplicate" in actions:
            await self._send(line)
        if "replay" in actions:
            for earlier in self._sent:
                await self._send(earlier)
        for rule in struck:
            await self._end(rule)

    def _hold(self, struck: list[Rule]) -> None:
        """Begin a time in which nothing comes, or nothing but bookmarks."""
        for rule in struck:
            if rule.action == "stall":
                self._stalled = rule.gate
            if rule.action == "bookmarks" and self._quiet is None:
                self._quiet = asyncio.create_task(self._cut_after(rule.gate))

    async def _say_that_nothing_happened(self, one: dict[str, Any]) -> None:
        """Send a bookmark that promises no more than what was passed on."""
        known = {"kind": one["kind"], "apiVersion": one["apiVersion"]}
        told = {**known, "metadata": {"resourceVersion": self._version}}
        await self._send(json.dumps({"type": "BOOKMARK", "object": told}).encode())

    async def _cut_after(self, gate: asyncio.Event) -> None:
        await gate.wait()
        if self._request.transport is not None:
            self._cut = True
            self._request.transport.abort()

    async def _strike_at_once(self) -> None:
        while not self._cut:
            for rule in self._rules():
                if rule.at_once and rule.strikes(None):
                    if rule.action == "stall":
                        self._stalled = rule.gate
                    await self._end(rule)
            await self._rules_changed.wait()
            self._rules_changed.clear()

    async def _end(self, rule: Rule) -> None:
        if rule.action == "error":
            status = failure(rule.status, rule.retry_after)
            await self._send(json.dumps({"type": "ERROR", "object": status}).encode())
        if rule.action in {"error", "cut"} and self._request.transport is not None:
            self._cut = True
            if rule.action == "cut":
                self._request.transport.abort()
            else:
                self._request.transport.close()

    async def _send(self, line: bytes) -> None:
        await self._response.write(line + b"\n")
