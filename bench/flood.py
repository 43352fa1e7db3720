"""The lag of the operator's event loop while workers with valid tokens send many requests.

Run as `.venv/bin/python bench/flood.py [--quick] [--workers 50]`. Each hostile worker has its own
address and as many connections as it may have. On each it sends requests, twenty at a time, without
waiting for answers. As in bench/long_poll.py a stub accepts every token; everything else is the
operator's own code. The lag is the additional time of a sleep of 5 ms there.
"""

import argparse
import asyncio
import json
import ssl
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvloop

from bench.long_poll import (
    NAMESPACE,
    Leadership,
    Stored,
    accept_every_token,
    job_name,
    make_identity,
    pod_name,
    published,
    token,
)
from bench.operator_bench import percentile, say
from devcluster.argument_types import how_many
from spotrun.agents.long_poll import Board
from spotrun.agents.tokens import Tokens
from spotrun.api.names import SERVER_NAME
from spotrun.http.connection_limits import Limits
from spotrun.observe.telemetry.agents import Agents
from spotrun.runtime.agent_server import Server, Settings

HOST = "127.0.0.1"
LOOK_SECONDS = 0.005
SECONDS = 10.0
AT_ONCE, MOST_UNANSWERED = 20, 200  # requests; more would only fill the kernel's buffers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5 workers for 2 s")
    parser.add_argument("--workers", type=how_many, default=50, help="that flood")
    parser.add_argument("--flood", type=int, help=argparse.SUPPRESS)  # the port that a child floods
    arguments = parser.parse_args()
    workers = 5 if arguments.quick else arguments.workers
    if arguments.flood is not None:
        uvloop.run(flood(arguments.flood, workers))
    else:
        uvloop.run(measure(workers, seconds=2.0 if arguments.quick else SECONDS))


async def measure(workers: int, seconds: float) -> None:
    async with served() as server:
        quiet, _ = await lags(seconds)
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, __file__, "--workers", str(workers), "--flood", str(server.port)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # only errors of broken connections
        )
        assert child.stdout is not None
        assert await child.stdout.readline(), "all of them flood now"
        cpu, began = time.process_time(), time.monotonic()
        late, busy = await lags(seconds)
        cpu_share = (time.process_time() - cpu) / (time.monotonic() - began)
        said, _ = await child.communicate(b"stop\n")
    facts = {"workers": workers, "answers": json.loads(said)}
    say("flood_lag_p99_ms", percentile(late, 99), "ms", quiet=percentile(quiet, 99), **facts)
    say("flood_lag_p50_ms", percentile(late, 50), "ms", quiet=percentile(quiet, 50), **facts)
    # This one does not include other work on this machine.
    say("flood_busy_p99_ms", percentile(busy, 99), "ms", **facts)
    say("flood_cpu_percent", 100 * cpu_share, "%", **facts)


@asynccontextmanager
async def served() -> AsyncIterator[Server]:
    """Run the operator's server with one job, in this process."""
    identity = make_identity()
    board = Board(identity.world_key)
    board.publish(published(0, world_number=1), version=1)
    leadership = Leadership()
    leadership.leads = True
    async with Server(
        Settings(host=HOST, port=0),
        board,
        Agents(time.monotonic),
        Tokens(accept_every_token),
        leadership,
        source=Stored(identity),
        identity=identity,
        wake=lambda _: None,
    ) as server:
        yield server


async def lags(seconds: float) -> tuple[list[float], list[float]]:
    """Return the lag of short sleeps in ms, and the CPU time of this process in each, in ms."""
    late, busy, end = list[float](), list[float](), time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        cpu = time.process_time()
        await asyncio.sleep(LOOK_SECONDS)
        late.append(1_000 * max(time.monotonic() - began - LOOK_SECONDS, 0.0))
        busy.append(1_000 * (time.process_time() - cpu))
    return late, busy


async def flood(port: int, workers: int) -> None:
    """Act as the hostile workers until told to stop; print the answers they got."""
    answers: Counter[str] = Counter()
    tasks = [
        asyncio.create_task(_flood(port, worker, answers))
        for worker in range(workers)
        for _ in range(Limits().connections_per_worker)
    ]
    while answers["429"] < len(tasks):  # noqa: ASYNC110 - they are counted in many places
        await asyncio.sleep(0.1)
    print("flooding", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(json.dumps(answers))


async def _flood(port: int, worker: int, answers: Counter[str]) -> None:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    path = f"/v1/jobs/{NAMESPACE}/{job_name(0)}/workers/{pod_name(0, worker)}/world?seen=x"
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\n"
    request += f"Authorization: Bearer {token(pod_name(0, worker))}\r\n\r\n"
    while True:
        try:
            reader, writer = await asyncio.open_connection(
                HOST,
                port,
                ssl=tls,
                server_hostname=str(SERVER_NAME),
                local_addr=(f"127.1.{worker // 200}.{worker % 200 + 1}", 0),
            )
            async with asyncio.TaskGroup() as both:
                may_ask = asyncio.Semaphore(MOST_UNANSWERED // AT_ONCE)
                both.create_task(_ask(writer, request.encode() * AT_ONCE, may_ask))
                both.create_task(_hear(reader, answers, may_ask))
        except* OSError:
            answers["hung up"] += 1
            await asyncio.sleep(0.05)


async def _ask(writer: asyncio.StreamWriter, requests: bytes, may_ask: asyncio.Semaphore) -> None:
    while True:
        await may_ask.acquire()
        writer.write(requests)
        await writer.drain()


async def _hear(
    reader: asyncio.StreamReader, answers: Counter[str], may_ask: asyncio.Semaphore
) -> None:
    number = 0
    while heard := await reader.read(2**16):
        for line in heard.split(b"HTTP/1.1 ")[1:]:
            answers[line[:3].decode()] += 1
            number += 1
            if number % AT_ONCE == 0:
                may_ask.release()
    raise ConnectionResetError("the operator closed the connection")


if __name__ == "__main__":
    main()
