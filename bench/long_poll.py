"""8,000 agents' polls held at once: memory, the move to another leader, and world fan-out.

Run as `.venv/bin/python bench/long_poll.py [--quick]`. A stub authenticator that accepts every
token replaces the API server's check of tokens; everything else is the operator's own code: TLS,
HTTP, rate limits, the board. Each agent has its own address in 127.0.0.0/8.
"""

import argparse
import asyncio
import base64
import datetime
import json
import random
import resource
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self, cast

import uvloop
from typing_extensions import override

from devcluster.argument_types import how_many
from spotrun.agents.answers import Peer, Published
from spotrun.agents.long_poll import Board
from spotrun.agents.tokens import POD_NAME, POD_UID, ReviewStatus, ReviewUser, Tokens
from spotrun.api.names import SERVER_NAME, TOKEN_AUDIENCE, Phase
from spotrun.api.status import Entry
from spotrun.http.certificates import Pair, make_authority, sign_serving
from spotrun.http.tls import Identity
from spotrun.observe.telemetry.agents import Agents as Heard
from spotrun.runtime.agent_server import Server, Settings
from spotrun.state.job_state import JobState, World

NAMESPACE = "bench"
WORKERS = 1_000  # of each job
HANDSHAKES = 64  # simultaneous ones of this process, which simulates all agents
RETURN_SECONDS = 2.0
"""The time over which agents spread their return after the leader closes their connections."""
ATTACH_TIMEOUT_SECONDS = 120.0


def main() -> None:
    arguments = parse_arguments()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if arguments.serve is not None:
        uvloop.run(serve(arguments.serve, arguments.polls))
        return
    polls = 1_000 if arguments.quick else arguments.polls
    uvloop.run(measure(polls, rounds=3 if arguments.quick else arguments.rounds))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 polls, 3 worlds")
    parser.add_argument("--polls", type=how_many, default=8_000)
    parser.add_argument("--rounds", type=how_many, default=20, help="worlds that are published")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)  # for child processes
    return parser.parse_args()


async def measure(polls: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        identity = make_identity()
        write_identity(Path(folder), identity)
        async with operator(Path(folder), polls) as first, operator(Path(folder), polls) as second:
            servers = [first, second]
            await first.lead(servers)
            before = await first.ask("stats")
            agents = Agents(identity.bundle, [server.port for server in servers])
            began = time.monotonic()
            await agents.start(polls)
            await until_attached(first, polls)
            report("long_poll_attach_seconds", time.monotonic() - began, "s", polls)
            after = await first.ask("stats")
            kilobytes = (after["rss_kb"] - before["rss_kb"]) / polls
            report("long_poll_rss_kb", kilobytes, "kB", polls)
            await fan_out(servers, agents, polls, rounds)
            await change_leader(servers, polls)
            await agents.stop()


async def fan_out(servers: list["Operator"], agents: "Agents", polls: int, rounds: int) -> None:
    server, standby = servers
    late: list[list[float]] = []
    for world_number in range(2, 2 + rounds):
        arrived = agents.expect(world_number, WORKERS)
        published = (await server.ask("world", world_number=world_number))["published_at"]
        times = await asyncio.wait_for(arrived, 30)
        await standby.ask("world", world_number=world_number)  # it reads the same status
        late.append([1_000 * (moment - published) for moment in times])
        await until_attached(server, polls)
    p50 = [statistics.quantiles(times, n=100)[49] for times in late]
    p99 = [statistics.quantiles(times, n=100)[98] for times in late]
    report("world_fanout_p50_ms", statistics.median(p50), "ms", polls)
    report("world_fanout_p99_ms", statistics.median(p99), "ms", polls, worst=round(max(p99), 1))


async def change_leader(servers: list["Operator"], polls: int) -> None:
    first, second = servers
    began, before = time.monotonic(), [(await s.ask("stats"))["cpu_seconds"] for s in servers]
    own = time.process_time()
    await second.lead(servers)
    await first.ask("step_down", leader=second.address)
    await until_attached(second, polls)
    seconds = time.monotonic() - began
    after = [(await s.ask("stats"))["cpu_seconds"] for s in servers]
    cpu = [late - early for late, early in zip(after, before, strict=True)]
    # Both replicas and all agents share one machine, perhaps with other work: the CPU time and the
    # share of the machine explain the duration.
    total = sum(cpu) + time.process_time() - own
    report(
        "long_poll_reattach_seconds",
        seconds,
        "s",
        polls,
        cpu_seconds=round(total, 1),
        cores_had=round(total / seconds, 2),
    )
    report("long_poll_reattach_cpu_ms", 1_000 * cpu[1] / polls, "ms", polls)


async def until_attached(server: "Operator", polls: int) -> None:
    async with asyncio.timeout(ATTACH_TIMEOUT_SECONDS):
        while (await server.ask("stats"))["polls"] < polls:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)


def report(metric: str, value: float, unit: str, polls: int, **more: float) -> None:
    line = {"metric": metric, "value": round(value, 2), "unit": unit, "polls": polls, **more}
    print(json.dumps(line | {"authenticator": "stub"}), flush=True)


# The agents: one connection each, a request of constant bytes, and its answer.


class Agent(asyncio.Protocol):
    """Polls without end; moves to the other server if one is not the leader or hangs up."""

    def __init__(self, number: int, agents: "Agents") -> None:
        self.number = number
        self._agents = agents
        self._seen = ""
        self._rest = b""
        self._transport: asyncio.Transport | None = None
        job, worker_id = divmod(number, WORKERS)
        pod = pod_name(job, worker_id)
        self._path = f"/v1/jobs/{NAMESPACE}/{job_name(job)}/workers/{pod}/world"
        self._token = token(pod)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's only behaves like one
        self._poll()

    @override
    def data_received(self, data: bytes) -> None:
        arrived_at = time.monotonic()
        self._rest += data
        head, found, body = self._rest.partition(b"\r\n\r\n")
        if not found or len(body) < content_length(head):
            return
        self._rest = b""
        if head.startswith(b"HTTP/1.1 200"):
            answer = json.loads(body)
            self._seen = answer["version"]
            self._agents.heard(answer, arrived_at)
            self._poll()
        elif head.startswith(b"HTTP/1.1 429"):
            asyncio.get_running_loop().call_later(1.0, self._poll)
        elif self._transport is not None:
            self._transport.close()

    @override
    def connection_lost(self, _: Exception | None) -> None:
        self._rest = b""
        self._transport = None
        self._agents.lost(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _poll(self) -> None:
        if self._transport is not None:
            head = f"GET {self._path}?seen={self._seen} HTTP/1.1\r\nHost: {SERVER_NAME}\r\n"
            self._transport.write(f"{head}Authorization: Bearer {self._token}\r\n\r\n".encode())


class Agents:
    """All agents, in this process."""

    def __init__(self, bundle: str, ports: list[int]) -> None:
        self._tls = ssl.create_default_context(cadata=bundle)
        self._ports = ports
        self._gate = asyncio.Semaphore(HANDSHAKES)
        self._agents: list[Agent] = []
        self._targets: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._world_number = 0
        self._wanted = 0
        self._times: list[float] = []
        self._arrived: asyncio.Future[list[float]] | None = None

    async def start(self, number: int) -> None:
        self._agents = [Agent(i, self) for i in range(number)]
        for agent in self._agents:
            self._connect_later(agent, 0.0)

    async def stop(self) -> None:
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        for agent in self._agents:
            agent.close()
        await asyncio.sleep(0.5)

    def expect(self, world_number: int, number: int) -> "asyncio.Future[list[float]]":
        self._world_number, self._wanted, self._times = world_number, number, []
        self._arrived = asyncio.get_running_loop().create_future()
        return self._arrived

    def heard(self, answer: dict[str, Any], arrived_at: float) -> None:
        world = answer.get("world")
        if self._arrived is None or world is None or world["number"] != self._world_number:
            return
        self._times.append(arrived_at)
        if len(self._times) == self._wanted:
            self._arrived.set_result(self._times)
            self._arrived = None

    def lost(self, agent: Agent) -> None:
        if not self._stopping:
            self._targets[agent.number] = 1 - self._targets.get(agent.number, 0)
            pause = random.uniform(0, RETURN_SECONDS)  # noqa: S311 - no secret
            self._connect_later(agent, pause)

    def _connect_later(self, agent: Agent, pause: float) -> None:
        task = asyncio.create_task(self._connect(agent, pause))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, agent: Agent, pause: float) -> None:
        await asyncio.sleep(pause)
        own = f"127.1.{agent.number // 250}.{agent.number % 250 + 1}"
        async with self._gate:
            try:
                await asyncio.get_running_loop().create_connection(
                    lambda: agent,
                    "127.0.0.1",
                    self._ports[self._targets.get(agent.number, 0)],
                    ssl=self._tls,
                    server_hostname=str(SERVER_NAME),  # uvloop takes no subclass
                    local_addr=(own, 0),
                )
            except OSError as error:
                print(f"agent {agent.number}: {error}", file=sys.stderr)
                self.lost(agent)


def content_length(head: bytes) -> int:
    _, _, rest = head.lower().partition(b"content-length:")
    return int(rest.partition(b"\r\n")[0])


# The operator: a child process that gets commands over its pipes.


class Operator:
    """One replica, as its parent process sees it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def started(self) -> Self:
        self.port = (await self._hear())["port"]
        return self

    async def ask(self, what: str, **more: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **more}).encode() + b"\n")
        return await self._hear()

    async def lead(self, servers: list["Operator"]) -> None:
        await self.ask("lead")
        for other in servers:
            if other is not self and not (await other.ask("stats"))["leads"]:
                await other.ask("follow", leader=self.address)

    async def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        said: dict[str, Any] = json.loads(await self._process.stdout.readline())
        return said


@asynccontextmanager
async def operator(folder: Path, polls: int) -> AsyncIterator[Operator]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        f"--serve={folder}",
        f"--polls={polls}",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield await Operator(process).started()
    finally:
        process.kill()
        await process.wait()


class Leadership:
    def __init__(self) -> None:
        self.leads = False
        self.address: str | None = None


class Stored:
    """Certificates that are never renewed."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def load(self) -> Identity:
        return self._identity


async def accept_every_token(shown: str) -> ReviewStatus:
    """The stub authenticator."""
    claims = json.loads(base64.urlsafe_b64decode(shown.split(".")[1] + "=="))["kubernetes.io"]
    pod = claims["pod"]
    extra: dict[str, tuple[str, ...]] = {POD_NAME: (pod["name"],), POD_UID: (pod["uid"],)}
    user = ReviewUser(f"system:serviceaccount:{claims['namespace']}:default", extra)
    return ReviewStatus(authenticated=True, audiences=(TOKEN_AUDIENCE,), user=user)


async def serve(folder: Path, polls: int) -> None:
    identity = read_identity(folder)
    board, leadership = Board(identity.world_key), Leadership()
    jobs = -(-polls // WORKERS)
    for job in range(jobs):
        board.publish(published(job, world_number=1), version=1)
    async with Server(
        Settings(host="127.0.0.1", port=0),
        board,
        Heard(time.monotonic),
        Tokens(accept_every_token),
        leadership,
        source=Stored(identity),
        identity=identity,
        wake=lambda _: None,
    ) as server:
        print(json.dumps({"port": server.port}), flush=True)
        lines = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
        )
        while line := await lines.readline():
            said = await obey(json.loads(line), server, board, leadership)
            print(json.dumps(said), flush=True)


async def obey(
    order: dict[str, Any], server: Server, board: Board, leadership: Leadership
) -> dict[str, Any]:
    match order["do"]:
        case "lead":
            leadership.leads = True
        case "follow" | "step_down":
            leadership.leads, leadership.address = False, order["leader"]
            if order["do"] == "step_down":
                await server.step_down()
        case "world":
            job = published(0, world_number=order["world_number"])
            published_at = time.monotonic()
            board.publish(job, version=order["world_number"])
            return {"published_at": published_at}
    return {
        "polls": board.num_polls,
        "rss_kb": resident_kb(),
        "cpu_seconds": time.process_time(),
        "leads": leadership.leads,
    }


def resident_kb() -> int:
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])


def published(job: int, world_number: int) -> Published:
    world = World(
        number=world_number,
        members=tuple(range(WORKERS)),
        is_active=True,
        entry=Entry.ABORT,
        store=f"10.0.0.1:{30_000 + world_number}",
        restore="step-4200.g1",
    )
    peers = {
        worker_id: Peer(
            pod_name(job, worker_id), pod_uid(pod_name(job, worker_id)), f"10.0.{worker_id % 250}.7"
        )
        for worker_id in range(WORKERS)
    }
    status = JobState(phase=Phase.RUNNING, world=world)
    return Published(NAMESPACE, job_name(job), f"uid-{job}", status, peers, processes=8)


def job_name(job: int) -> str:
    return f"job-{job}"


def pod_name(job: int, worker_id: int) -> str:
    return f"{job_name(job)}-abcde-{worker_id}"


def pod_uid(pod: str) -> str:
    return f"00000000-0000-4000-8000-{pod}"


def token(pod: str) -> str:
    """Return a token as long as a real one; the stub reads only its claims."""
    claims = {
        "aud": [TOKEN_AUDIENCE],
        "exp": time.time() + 3_600,
        "kubernetes.io": {"namespace": NAMESPACE, "pod": {"name": pod, "uid": pod_uid(pod)}},
    }
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"header.{payload}.{'s' * 800}"


def make_identity() -> Identity:
    now = datetime.datetime.now(datetime.UTC)
    authority = make_authority(now)
    serving = sign_serving(authority, now)
    return Identity(authority.certificate.decode(), serving, b"bench")


def write_identity(folder: Path, identity: Identity) -> None:
    parts = {
        "ca.crt": identity.bundle.encode(),
        "tls.crt": identity.serving.certificate,
        "tls.key": identity.serving.key,
    }
    for name, content in parts.items():
        (folder / name).write_bytes(content)


def read_identity(folder: Path) -> Identity:
    serving = Pair((folder / "tls.crt").read_bytes(), (folder / "tls.key").read_bytes())
    return Identity((folder / "ca.crt").read_text(), serving, b"bench")


if __name__ == "__main__":
    main()
