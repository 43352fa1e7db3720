"""A Prometheus of a test's own, which scrapes as the chart's ServiceMonitor tells it to."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from devcluster.addresses import free_port

_PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Sample:
    """One series at one moment."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Prometheus:
    """A server that runs."""

    url: str
    session: aiohttp.ClientSession

    async def query(self, expr: str) -> list[Sample]:
        """Return the present samples of an expression."""
        found = await self._ask("query", query=expr)
        return [Sample(one["metric"], float(one["value"][1])) for one in found["result"]]

    async def rules(self) -> list[dict[str, Any]]:
        """Every rule, with what its last evaluation came to."""
        found = await self._ask("rules")
        return [rule for group in found["groups"] for rule in group["rules"]]

    async def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that are pending or fire, in the words that people would read."""
        found: list[dict[str, Any]] = (await self._ask("alerts"))["alerts"]
        return found

    async def _ask(self, what: str, **parameters: str) -> Any:
        async with self.session.get(f"{self.url}/api/v1/{what}", params=parameters) as answer:
            said = await answer.json()
        assert said["status"] == "success", f"{said.get('error')}: {parameters}"
        return said["data"]


@asynccontextmanager
async def scraping(
    program: Path,
    folder: Path,
    *,
    host: str,
    pods: Mapping[str, str],
    rules: Sequence[Path] = (),
) -> AsyncIterator[Prometheus]:
    """Run a server; `pods` is where each pod of the operator, by name, serves metrics."""
    config = folder / "prometheus.yaml"
    config.write_text(yaml.safe_dump(_config(pods, rules)))
    log, address = folder / "prometheus.log", f"{host}:{free_port(host)}"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"),
            f"--web.listen-address={address}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        async with aiohttp.ClientSession() as session:
            is_ready = await _until_ready(process, session, f"http://{address}")
            assert is_ready, f"Prometheus does not answer: {log.read_text()}"
            yield Prometheus(f"http://{address}", session)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _config(pods: Mapping[str, str], rules: Sequence[Path]) -> dict[str, Any]:
    """Return what the Prometheus operator makes of the ServiceMonitor, one pod for each target."""
    service = "spotrun-metrics"
    common = {"namespace": "spotrun-system", "service": service, "job": service}
    common |= {"endpoint": "metrics", "container": "operator"}
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(file) for file in rules],
        "scrape_configs": [
            {
                "job_name": "spotrun",
                "honor_labels": True,
                "static_configs": [
                    {"targets": [address], "labels": {**common, "pod": pod}}
                    for pod, address in pods.items()
                ],
            }
        ],
    }


async def _until_ready(
    process: asyncio.subprocess.Process, session: aiohttp.ClientSession, url: str
) -> bool:
    end = time.monotonic() + _PATIENCE_SECONDS
    while process.returncode is None and time.monotonic() < end:
        with suppress(aiohttp.ClientConnectionError):  # it does not listen yet
            async with session.get(f"{url}/-/ready") as answer:
                if answer.status == 200:
                    return True
        await asyncio.sleep(0.05)
    return False
