"""The connection to the operator, against servers with certificates as the operator makes them."""

import datetime
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from spotrun.http.certificates import Pair, make_authority, sign_serving
from spotrun.wire import Answer, Notice, Report, write_answer, write_report
from spotrun_trainer.agent.operator_connection import (
    Contact,
    JobGoneError,
    NoAnswerError,
    OperatorConnection,
)
from tests.unit.trainer.agent.builders import an_answer, settings

ANSWER = an_answer()
REPORT = write_report(Report(ready=True))


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    authorization: str
    body: bytes


Reply = Callable[[Request], tuple[int, dict[str, str], bytes]]


class Handler(BaseHTTPRequestHandler):
    """A connection of an agent; replies as the server of the moment does."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:
        self.answer(b"")

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, body: bytes) -> None:
        request = Request(self.command, self.path, self.headers["Authorization"], body)
        self.server.requests.append(request)
        status, headers, body = self.server.reply(request)
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, serving: Pair, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[Request] = []
        self.num_connections = 0
        self.reply: Reply = lambda _: (200, {}, write_answer(ANSWER))
        (folder / "pair.pem").write_bytes(serving.certificate + serving.key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(folder / "pair.pem")
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        self.num_connections += 1
        super().process_request(request, client_address)

    @override
    def handle_error(self, *_: object) -> None:
        pass  # a client that does not trust us hangs up


LinkTo = Callable[..., OperatorConnection]


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@pytest.fixture(scope="module")
def authority() -> Pair:
    return make_authority(now())


@pytest.fixture
def servers(authority: Pair, tmp_path: Path) -> Iterator[Callable[[], Server]]:
    started: list[Server] = []

    def start() -> Server:
        started.append(Server(sign_serving(authority, now()), tmp_path))
        return started[-1]

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


@pytest.fixture
def server(servers: Callable[[], Server]) -> Server:
    return servers()


@pytest.fixture
def link_to(authority: Pair, tmp_path: Path) -> Iterator[LinkTo]:
    made: list[OperatorConnection] = []

    def link_to(server: str, trusted: Pair = authority) -> OperatorConnection:
        (tmp_path / "token").write_text("a token\n")
        tls = ssl.create_default_context(cadata=trusted.certificate.decode())
        chosen = settings(tmp_path, server=server)
        made.append(
            OperatorConnection(chosen, tls, Contact(server), timeout_seconds=5.0, roll=lambda: 1.0)
        )
        return made[-1]

    yield link_to
    for link in made:
        link.close()


def refusal(status: int, **headers: str) -> Reply:
    return lambda _: (status, headers, json.dumps({"message": "no"}).encode())


def test_polls_and_reports_are_made_over_one_connection(server: Server, link_to: LinkTo) -> None:
    link = link_to(server.address)

    assert link.poll("v 1") == ANSWER
    assert link.report(REPORT) == ANSWER
    poll, report = server.requests
    path = "/v1/jobs/team/job/workers/job-abcde-0"
    assert poll == Request("GET", f"{path}/world?seen=v%201", "Bearer a token", b"")
    assert report == Request("POST", f"{path}/report", "Bearer a token", REPORT)
    assert server.num_connections == 1


def test_a_renewed_token_is_shown(server: Server, link_to: LinkTo, tmp_path: Path) -> None:
    link = link_to(server.address)
    server.reply = refusal(401)
    with pytest.raises(NoAnswerError, match="401: no"):
        link.poll("")
    (tmp_path / "token").write_text("the next")
    server.reply = lambda _: (200, {}, write_answer(ANSWER))

    assert link.poll("") == ANSWER
    assert server.requests[-1].authorization == "Bearer the next"


def test_an_operator_of_another_authority_is_not_spoken_to(server: Server, link_to: LinkTo) -> None:
    link = link_to(server.address, make_authority(now()))
    with pytest.raises(NoAnswerError, match="CERTIFICATE_VERIFY_FAILED"):
        link.poll("")
    assert server.requests == []


def test_a_standby_sends_on_to_the_leader(servers: Callable[[], Server], link_to: LinkTo) -> None:
    standby, leader = servers(), servers()
    body = json.dumps({"message": "x leads", "leader": leader.address}).encode()
    standby.reply = lambda _: (421, {"Connection": "close"}, body)
    link = link_to(standby.address)

    assert link.poll("") == ANSWER
    assert link.report(REPORT) == ANSWER
    assert (len(standby.requests), len(leader.requests)) == (1, 2)


def test_when_the_leader_is_gone_the_configured_address_knows_the_next(
    servers: Callable[[], Server], link_to: LinkTo
) -> None:
    standby, leader = servers(), servers()
    body = json.dumps({"leader": leader.address}).encode()
    standby.reply = lambda _: (421, {"Connection": "close"}, body)
    link = link_to(standby.address)
    link.poll("")
    leader.reply = refusal(503, Connection="close")
    with pytest.raises(NoAnswerError, match="503"):
        link.poll("")
    standby.reply = lambda _: (200, {}, write_answer(ANSWER))

    assert link.poll("") == ANSWER
    assert len(standby.requests) == 2


def test_two_standbys_that_send_to_each_other_are_no_loop(
    servers: Callable[[], Server], link_to: LinkTo
) -> None:
    one, other = servers(), servers()
    for standby, named in ((one, other), (other, one)):
        body = json.dumps({"leader": named.address}).encode()
        standby.reply = lambda _, body=body: (421, {"Connection": "close"}, body)  # type: ignore[misc]
    link = link_to(one.address)
    with pytest.raises(NoAnswerError, match="421"):
        link.poll("")
    assert (len(one.requests), len(other.requests)) == (1, 1)


def test_a_deleted_job_is_told_apart(server: Server, link_to: LinkTo) -> None:
    server.reply = refusal(410)
    with pytest.raises(JobGoneError):
        link_to(server.address).poll("")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"wire": 1}'])
def test_what_is_no_answer_counts_as_none(server: Server, link_to: LinkTo, body: bytes) -> None:
    server.reply = lambda _: (200, {}, body)
    with pytest.raises(NoAnswerError):
        link_to(server.address).poll("")


def test_a_refused_connection_is_tried_ever_more_slowly(link_to: LinkTo) -> None:
    link = link_to("127.0.0.1:1")
    pauses = []
    for _ in range(9):
        with pytest.raises(NoAnswerError, match="ConnectionRefusedError") as error:
            link.poll("")
        pauses.append(link.pause_seconds(error.value))
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_pauses_are_spread_and_heed_what_the_operator_wishes(
    server: Server, link_to: LinkTo
) -> None:
    server.reply = refusal(429, **{"Retry-After": "2"})
    link = link_to(server.address)
    link._roll = lambda: 0.0
    with pytest.raises(NoAnswerError) as error:
        link.poll("")
    assert link.pause_seconds(error.value) == 1.0


def test_success_ends_the_pauses(server: Server, link_to: LinkTo) -> None:
    link = link_to(server.address)
    server.reply = refusal(503)
    for _ in range(5):
        with pytest.raises(NoAnswerError):
            link.poll("")
    server.reply = lambda _: (200, {}, write_answer(ANSWER))
    link.poll("")
    server.reply = refusal(503)
    with pytest.raises(NoAnswerError) as error:
        link.poll("")
    assert link.pause_seconds(error.value) == 0.1


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("ahead_seconds", [-1000.0, 0.0, 1000.0])
def test_moments_are_told_by_the_clock_of_this_machine(
    server: Server, link_to: LinkTo, ahead_seconds: float, *, stops: bool
) -> None:
    theirs = time.time() + ahead_seconds
    answer = Answer(version="v", phase="Running", notice=Notice(theirs + 60, "Maintenance"))
    if stops:
        answer = replace(answer, stop_at=theirs + 60)
    server.reply = lambda _: (200, {"Date": formatdate(theirs)}, write_answer(answer))
    found = link_to(server.address).poll("")

    assert found.notice is not None
    assert found.notice.at == pytest.approx(time.time() + 60, abs=3)
    assert found.stop_at == (pytest.approx(time.time() + 60, abs=3) if stops else None)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_absence_is_said_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = Clock()
    contact = Contact("sync:9443", clock)
    for clock.now in (101.0, 104.0, 105.0, 200.0):
        contact.missed(NoAnswerError("503: nobody leads"))
    assert contact.away_seconds == 100.0
    contact.made()
    contact.made()

    away, again = caplog.messages
    assert away.startswith("no answer from the operator at sync:9443 for 4 s: 503: nobody leads")
    assert again == "the operator answers again, after 100 s"
    assert contact.away_seconds == 0.0


def test_a_short_absence_alarms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = Clock()
    contact = Contact("sync:9443", clock)
    clock.now += 2.0
    contact.missed(NoAnswerError("ConnectionRefusedError"))
    contact.made()
    assert caplog.messages == []
