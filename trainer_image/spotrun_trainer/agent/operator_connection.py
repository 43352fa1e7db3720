"""A connection to the operator that follows its leader.

An `OperatorConnection` serves one thread: the agent has one for its long poll and one for its
reports. Both note in a `Contact` whether the operator answers.
"""

import http.client
import json
import logging
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import quote

from spotrun.wire import Answer, read_answer
from spotrun_trainer.agent.settings import Settings
from spotrun_trainer.process.addresses import split_address

log = logging.getLogger(__name__)

SERVER_NAME = "sync.spotrun.dev"
"""The name in the operator's certificate, whatever address is used."""

_CONNECT_SECONDS = 5.0
_ANSWER_BYTES = 1 << 20
_QUIET_SECONDS = 3.0
"""An operator that restarts or fails over answers again within this time: no warning is needed."""
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_CLOCK_SECONDS = 2.0
_KEEPALIVE = (  # finds in about 10 s that a machine is lost, which sends nothing
    (socket.TCP_KEEPIDLE, 5),
    (socket.TCP_KEEPINTVL, 2),
    (socket.TCP_KEEPCNT, 3),
    (socket.TCP_USER_TIMEOUT, 10_000),
)


class NoAnswerError(Exception):
    """The operator did not answer, or not with what was asked for; the text says why."""

    def __init__(self, why: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(why)
        self.retry_after_seconds = retry_after_seconds  # as the operator asks; None: it did not say


class JobGoneError(NoAnswerError):
    """The job was deleted."""


@dataclass
class Contact:
    """The time of the operator's last answer; logs when answers stop, and when they come again."""

    server: str
    clock: Callable[[], float] = time.monotonic
    _heard_at: float = field(init=False)
    _is_said: bool = field(default=False, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._heard_at = self.clock()

    @property
    def away_seconds(self) -> float:
        """Seconds since the operator's last answer."""
        return self.clock() - self._heard_at

    def made(self) -> None:
        """Note that the operator answered."""
        with self._lock:
            seconds, self._heard_at = self.away_seconds, self.clock()
            was_said, self._is_said = self._is_said, False
        if was_said:
            log.info("the operator answers again, after %.0f s", seconds)

    def missed(self, why: Exception) -> None:
        """Note that the operator did not answer."""
        with self._lock:
            is_news = not self._is_said and self.away_seconds > _QUIET_SECONDS
            self._is_said = self._is_said or is_news
        if is_news:
            log.warning(
                "no answer from the operator at %s for %.0f s: %s. Training continues without it; "
                "the agent keeps trying.",
                self.server,
                self.away_seconds,
                why,
            )


class OperatorConnection:
    """One HTTPS connection that follows the leader; threads must not share it."""

    def __init__(
        self,
        settings: Settings,
        tls: ssl.SSLContext,
        contact: Contact,
        *,
        timeout_seconds: float,
        roll: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._tls = tls
        self._contact = contact
        self._timeout_seconds = timeout_seconds
        self._roll = roll
        names = (settings.namespace, settings.job, settings.worker)
        self._path = "/v1/jobs/{}/{}/workers/{}".format(*(quote(name, safe="") for name in names))
        self._connection: http.client.HTTPConnection | None = None
        self._leader: str | None = None  # the leader that a standby named; None: as configured
        self._failures = 0
        self._ahead_seconds = 0.0  # of the operator's clock, before ours

    def poll(self, seen: str) -> Answer:
        """Return the operator's answer once it is newer than `seen`; raises NoAnswerError."""
        return self._ask("GET", f"world?seen={quote(seen, safe='')}")

    def report(self, body: bytes) -> Answer:
        """Report, and return the operator's answer; raises NoAnswerError."""
        return self._ask("POST", "report", body)

    def pause_seconds(self, error: NoAnswerError) -> float:
        """Return the pause before the next attempt: longer each time, and random."""
        doublings = min(max(self._failures - 1, 0), 10)
        own = min(_FIRST_PAUSE_SECONDS * (1 << doublings), _LONGEST_PAUSE_SECONDS)
        asked = min(error.retry_after_seconds or 0.0, _LONGEST_PAUSE_SECONDS)
        return max(own, asked) * (0.5 + 0.5 * self._roll())

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _ask(self, method: str, what: str, body: bytes | None = None) -> Answer:
        try:
            answer = self._follow(method, what, body)
        except NoAnswerError as error:
            self._give_up(error)
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            missed = NoAnswerError(f"{type(error).__name__}: {error}"[:300])
            self._give_up(missed)
            raise missed from error
        self._failures = 0
        self._contact.made()
        return answer

    def _give_up(self, error: NoAnswerError) -> None:
        self.close()
        self._leader = None  # the standby that named it may be out of date
        self._failures += 1
        self._contact.missed(error)

    def _follow(self, method: str, what: str, body: bytes | None) -> Answer:
        status, content, retry_after = self._exchange(method, what, body)
        if status == HTTPStatus.MISDIRECTED_REQUEST:
            self._leader = str(_object(content).get("leader") or "") or None
            self.close()
            if self._leader is not None:  # at once, but follow only one redirection at a time
                status, content, retry_after = self._exchange(method, what, body)
        if status == HTTPStatus.OK:
            return self._in_own_time(read_answer(content))
        said = f"{status}: {_object(content).get('message', '')}"[:300]
        if status == HTTPStatus.GONE:
            raise JobGoneError(said)
        raise NoAnswerError(said, retry_after_seconds=retry_after)

    def _in_own_time(self, answer: Answer) -> Answer:
        """Return the answer with its times converted to this machine's clock, which may differ."""
        stop_at, notice, ahead = answer.stop_at, answer.notice, self._ahead_seconds
        return replace(
            answer,
            stop_at=None if stop_at is None else stop_at - ahead,
            notice=None if notice is None else replace(notice, at=notice.at - ahead),
        )

    def _exchange(
        self, method: str, what: str, body: bytes | None
    ) -> tuple[int, bytes, float | None]:
        if self._connection is None:
            self._connection = self._connect(self._leader or self._settings.server)
        # Read each time: the kubelet renews it, and a read is cheap compared with a request.
        token = self._settings.token_file.read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        self._connection.request(method, f"{self._path}/{what}", body, headers)
        response = self._connection.getresponse()
        content = response.read(_ANSWER_BYTES)
        after = response.headers.get("Retry-After", "")
        self._ahead_seconds = _ahead_seconds(response.headers.get("Date"))
        if response.will_close:
            self.close()
        return response.status, content, float(after) if after.isdecimal() else None

    def _connect(self, server: str) -> http.client.HTTPConnection:
        host, port = split_address(server)
        connection = http.client.HTTPConnection(host, port)
        connection.auto_open = 0  # it would open one without TLS
        plain = socket.create_connection((host, port), timeout=_CONNECT_SECONDS)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEPALIVE:
                plain.setsockopt(socket.IPPROTO_TCP, option, value)
            connection.sock = self._tls.wrap_socket(plain, server_hostname=SERVER_NAME)
            connection.sock.settimeout(self._timeout_seconds)
        except BaseException:
            plain.close()
            raise
        return connection


def _ahead_seconds(date: str | None) -> float:
    """Return the seconds by which the sender's clock is ahead; 0 within the header's precision."""
    if date is None:
        return 0.0
    try:
        ahead = parsedate_to_datetime(date).timestamp() - time.time()
    except ValueError:
        return 0.0
    return ahead if abs(ahead) > _CLOCK_SECONDS else 0.0


def _object(content: bytes) -> dict[str, object]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
