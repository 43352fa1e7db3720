"""The cost of an agent's report to the operator: of its connection, and of what it is for.

The two are measured apart: in `bench/operator_child.py` the agents have no connections, and the
server of `bench/long_poll.py` makes no decisions.
"""

import asyncio
import ssl
import tempfile
from pathlib import Path

from bench.long_poll import NAMESPACE, job_name, make_identity, operator, pod_name, token
from bench.long_poll import write_identity as write
from bench.operator_bench import Child, cpu_seconds, say
from spotrun.api.names import SERVER_NAME
from spotrun.wire import Progress, Report, write_report

ROUNDS, EACH = 5, 20
"""A worker may send 60 requests at once."""


async def without_connections(child: Child, workers: int) -> None:
    """Print the CPU time that a report of progress takes, with the decisions that follow."""
    rounds: list[float] = []
    for _ in range(ROUNDS):
        before = cpu_seconds(child.pid)
        await child.ask("progress")
        await asyncio.sleep(1)  # what it wakes is worked on
        rounds.append(1e6 * (cpu_seconds(child.pid) - before) / workers)
    say("scale_2000_workers_report_cpu_us", rounds, "us per report", pods=workers)


async def connections(workers: int) -> None:
    """Print the CPU time that reports take over TLS, on connections that are kept open."""
    with tempfile.TemporaryDirectory() as folder:
        identity = make_identity()
        write(Path(folder), identity)
        async with operator(Path(folder), workers) as server:
            await server.lead([server])
            tls = ssl.create_default_context(cadata=identity.bundle)
            agents = [await _Agent.connect(number, server.port, tls) for number in range(workers)]
            await asyncio.gather(*(agent.report(1) for agent in agents))
            rounds: list[float] = []
            for turn in range(2):
                before = (await server.ask("stats"))["cpu_seconds"]
                await asyncio.gather(*(agent.report(EACH, turn) for agent in agents))
                after = (await server.ask("stats"))["cpu_seconds"]
                rounds.append(1e6 * (after - before) / (EACH * workers))
            for agent in agents:
                agent.writer.close()
    say("scale_report_tls_cpu_us", rounds, "us per report", agents=workers)


class _Agent:
    """An agent with a connection, which sends one report after the other."""

    def __init__(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._pod = pod_name(0, number)
        self._reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, number: int, port: int, tls: ssl.SSLContext) -> "_Agent":
        reader, writer = await asyncio.open_connection(
            *("127.0.0.1", port),
            ssl=tls,
            server_hostname=str(SERVER_NAME),
            local_addr=(f"127.1.{number // 250}.{number % 250 + 1}", 0),
        )
        return cls(number, reader, writer)

    async def report(self, times: int, turn: int = 0) -> None:
        """Send so many reports."""
        path = f"/v1/jobs/{NAMESPACE}/{job_name(0)}/workers/{self._pod}/report"
        for number in range(times):
            progress = Progress(1, 1000 * turn + number, 1_000_000)
            body = write_report(Report(ready=True, arrived=1, progress=progress))
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            self.writer.write(f"{head}Authorization: Bearer {token(self._pod)}\r\n\r\n".encode())
            self.writer.write(body)
            answer = await self._reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer.decode()
            await self._reader.readexactly(
                int(answer.lower().split(b"content-length: ")[1].split()[0])
            )
