"""A real browser: Debian's Chromium without a window, by its DevTools protocol.

https://chromedevtools.github.io/devtools-protocol: a WebSocket, which aiohttp has.
"""

import asyncio
import base64
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests may be root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--no-first-run",
    "--remote-debugging-port=0",
)
_PATIENCE_SECONDS = 60.0


class Tab:
    """One page of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._last = 0
        self.complaints: list[str] = []  # of the console: errors, and what the policy refused

    async def ask(self, method: str, **params: Any) -> Any:
        """Send a command, and return its result."""
        self._last += 1
        await self._socket.send_json({"id": self._last, "method": method, "params": params})
        while True:
            answer = await self._socket.receive_json(timeout=_PATIENCE_SECONDS)
            self._note(answer)
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return answer["result"]

    async def visit(self, address: str) -> None:
        """Open an address."""
        await self.ask("Page.navigate", url=address)

    async def value(self, expression: str) -> Any:
        """Return what a script expression is worth; promises are awaited."""
        found = await self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def until(self, expression: str) -> Any:
        """Wait until an expression is true; returns it."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                if found := await self.value(expression):
                    return found
                await asyncio.sleep(0.05)

    async def press(self, key: str) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        await self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        await self.ask("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def look(self, *, width: int, height: int, is_dark: bool = False) -> None:
        """Have another size of the window, and another preference."""
        await self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        await self.ask("Emulation.setEmulatedMedia", features=[scheme])

    async def picture(self, to: Path) -> None:
        """Write a screenshot, in the format that the name ends in."""
        found = await self.ask("Page.captureScreenshot", format=to.suffix[1:])
        to.write_bytes(base64.b64decode(found["data"]))  # noqa: ASYNC240 - a test's own small file

    def _note(self, answer: dict[str, Any]) -> None:
        if answer.get("method") == "Log.entryAdded":
            entry = answer["params"]["entry"]
            self.complaints.append(f"{entry['text']} {entry.get('url', '')}".rstrip())
        if answer.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(answer["params"]["exceptionDetails"]))


@asynccontextmanager
async def opened_tab() -> AsyncIterator[Tab]:
    """Start the browser with a profile of its own, and have one tab of it."""
    assert PROGRAM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            PROGRAM,
            *_FLAGS,
            f"--user-data-dir={profile}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with aiohttp.ClientSession() as session:
                address = await _page_address(session, Path(profile, "DevToolsActivePort"))
                async with session.ws_connect(address, max_msg_size=0) as socket:
                    tab = Tab(socket)
                    for domain in ("Page", "Runtime", "Log"):
                        await tab.ask(f"{domain}.enable")
                    yield tab
                    await tab.ask("Browser.close")
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def _page_address(session: aiohttp.ClientSession, port_file: Path) -> str:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            await asyncio.sleep(0.05)
            written = port_file.read_text() if port_file.exists() else ""  # noqa: ASYNC240
            if "\n" not in written:
                continue
            port = written.splitlines()[0]
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                pages = [one for one in await answer.json() if one["type"] == "page"]
            if pages:
                return str(pages[0]["webSocketDebuggerUrl"])
