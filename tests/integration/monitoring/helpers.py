"""Prometheus as a process that looks at one operator, and the expressions that it is asked."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

ROOT = Path(__file__).parents[3]
ALERTS = sorted((ROOT / "charts/spotrun/alerts").glob("*.yaml"))
DASHBOARDS = sorted((ROOT / "charts/spotrun/dashboards").glob("*.json"))
_PATIENCE_SECONDS = 60


def expressions(dashboard: Path, **chosen: str) -> dict[str, str]:
    """The expressions of a dashboard by panel and legend, with what Grafana puts in."""
    chosen = {"__range": "1h", "__rate_interval": "1m", **chosen}
    found = {}
    for panel in json.loads(dashboard.read_text())["panels"]:
        for target in panel.get("targets", []):
            expr = re.sub(r"\$(\w+)", lambda word: chosen[word[1]], target["expr"])
            found[f"{panel['title']}: {target['legendFormat']}"] = expr
    return found


@dataclass(frozen=True)
class Prometheus:
    """One that runs."""

    url: str

    async def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/api/v1/{path}", params=parameters) as answer,
        ):
            said = await answer.json()
            assert said["status"] == "success", said
            return said["data"]

    async def query(self, expr: str) -> list[dict[str, Any]]:
        """What an expression is now."""
        found = (await self.ask("query", query=expr))["result"]
        assert isinstance(found, list)
        return found


@asynccontextmanager
async def watching(
    program: Path, target: str, host: str, folder: Path
) -> AsyncIterator[Prometheus]:
    """Prometheus with our alerts, asking one operator every second."""
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(file) for file in ALERTS],
        "scrape_configs": [
            {
                "job_name": "spotrun",
                "honor_labels": True,
                "static_configs": [{"targets": [target], "labels": {"namespace": "system"}}],
            }
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    log = folder / "prometheus.log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            program,
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={host}:9090",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        await _until_ready(f"http://{host}:9090/-/ready", process, log)
        yield Prometheus(f"http://{host}:9090")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _until_ready(url: str, process: asyncio.subprocess.Process, log: Path) -> None:
    async with asyncio.timeout(_PATIENCE_SECONDS), aiohttp.ClientSession() as session:
        while True:
            assert process.returncode is None, f"Prometheus has ended: see {log}"
            try:
                async with session.get(url) as answer:
                    if answer.ok:
                        return
            except aiohttp.ClientConnectorError:
                pass
            await asyncio.sleep(0.1)
