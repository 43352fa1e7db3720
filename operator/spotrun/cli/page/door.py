"""The door of the page: which requests are let in, and the headers of each answer. Pure.

The server listens on loopback, where every program of every user of this machine can call it, and
every page that the browser has open. These are the checks against them:

* The ticket, 256 random bits, is in the address that is printed and opened. It works once: a
  browser gets a cookie for it, so an address in a list of processes or a history opens nothing.
* The cookie is HttpOnly and SameSite=Strict. A browser sends cookies to all ports of a host, so it
  is bound to a path that is random as well: another server on this machine never sees it.
* Host must be the address of this machine or localhost, so another name that resolves to
  127.0.0.1 (DNS rebinding) is refused.
* A request that the browser marks as from another site is refused, even with the cookie.
* Only GET without a body is accepted, so there is nothing to forge.
* The content security policy allows only scripts and styles of this server, nothing inline,
  no form and no frame; Trusted Types keep text of the cluster from becoming HTML.
"""

import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

COOKIE = "spotrun-page"
MOST_WRONG_TICKETS = 100
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Server": "spotrun",
}
"""The headers of every answer."""


@dataclass(frozen=True)
class Refusal:
    """An answer to a request that is refused."""

    status: HTTPStatus
    text: str


@dataclass(frozen=True)
class Asked:
    """The parts of a request that the door checks."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)  # without regard to case
    cookie: str = ""
    has_body: bool = False


def not_at(hosts: Sequence[str], asked: Asked) -> Refusal | None:
    """Refuse a name that is not the page's: another one may resolve to it (DNS rebinding)."""
    if asked.headers.get("Host", "") in hosts:
        return None
    return Refusal(
        HTTPStatus.MISDIRECTED_REQUEST,
        f"this page is only at {hosts[0]}; another name for it is refused",
    )


def from_elsewhere(asked: Asked, origins: Sequence[str], *, is_entrance: bool) -> Refusal | None:
    """Refuse what the browser marks as from another site; an entrance may be linked to."""
    origin = asked.headers.get("Origin")
    site = asked.headers.get("Sec-Fetch-Site", "same-origin")
    is_visit = asked.headers.get("Sec-Fetch-Mode") == "navigate" and site == "none"
    is_ours = site == "same-origin" or is_visit or is_entrance
    if is_ours and (origin is None or origin in origins):
        return None
    return Refusal(HTTPStatus.FORBIDDEN, "another site may not send requests to this page")


def not_understood(asked: Asked) -> Refusal | None:
    """Refuse all but GET without a body."""
    if asked.method != "GET":
        return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is accepted: nothing changes")
    if asked.has_body:
        return Refusal(HTTPStatus.BAD_REQUEST, "a request with a body is not accepted")
    return None


@dataclass(frozen=True)
class Door:
    """The secrets of one run of the page."""

    port: int
    ticket: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    root: str = field(default_factory=lambda: f"/{secrets.token_hex(16)}/", repr=False)

    @property
    def address(self) -> str:
        """The address that lets a browser in, once."""
        return f"http://127.0.0.1:{self.port}/enter/{self.ticket}"

    def refusal(self, asked: Asked) -> Refusal | None:
        """Return why a request is refused; None if it is not."""
        return self._not_from_here(asked) or not_understood(asked) or self._no_session(asked)

    def is_ticket(self, text: str) -> bool:
        """Whether this is the ticket; takes the same time for every wrong one."""
        return hmac.compare_digest(text.encode(), self.ticket.encode())

    def _not_from_here(self, asked: Asked) -> Refusal | None:
        hosts = (f"127.0.0.1:{self.port}", f"localhost:{self.port}")
        if (refusal := not_at(hosts, asked)) is not None:
            return refusal
        origins = [f"http://{host}" for host in hosts]
        return from_elsewhere(asked, origins, is_entrance=asked.path.startswith("/enter/"))

    def _no_session(self, asked: Asked) -> Refusal | None:
        if asked.path.startswith("/enter/"):
            return None
        is_inside = hmac.compare_digest(asked.path[: len(self.root)].encode(), self.root.encode())
        if is_inside and hmac.compare_digest(asked.cookie.encode(), self.session.encode()):
            return None
        return Refusal(
            HTTPStatus.FORBIDDEN,
            "access refused: open the address that `kubectl tjob ui` printed. It works once, for "
            "one browser; start the command again for a new address",
        )
