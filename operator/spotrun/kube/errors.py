"""Errors of the API server, as classes that callers can act upon."""

import msgspec

MAX_RETRY_AFTER_SECONDS = 600.0
"""The longest Retry-After that is obeyed: no server may stop the operator for ever."""

_MAX_MESSAGE = 2000  # a proxy's error page can have any size, and conditions contain messages


class Cause(msgspec.Struct, frozen=True):
    """One of the details of a refusal, such as one invalid field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a Status with more details."""

    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: float | None = None


class Status(msgspec.Struct, frozen=True):
    """A `v1.Status`, which is what the API server answers when it refuses."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class KubeError(Exception):
    """A request failed; carries Kubernetes' own message."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.causes = causes
        self.retry_after_seconds = retry_after_seconds


class Retryable(KubeError):
    """The request had no effect, and may succeed later (not before Retry-After)."""


class NotLeading(Retryable):
    """The write was not sent: this replica is no longer the leader; another one may be it."""


class Silent(KubeError):
    """An open stream brought nothing for long: nothing happened, or the connection is dead."""


class Ambiguous(KubeError):
    """A write was sent and its outcome is unknown: read the object before you conclude anything."""


class Conflict(KubeError):
    """The object is not as the write assumed (version, UID, or another field manager)."""


class AlreadyExists(KubeError):
    """An object of that name exists: perhaps ours, if the answer to its creation was lost."""


class Forbidden(KubeError):
    """Refused by RBAC, a quota, Pod Security, or because the namespace is terminating."""


class Unauthorized(KubeError):
    """The credentials are not accepted, not even after they were read again."""


class Invalid(KubeError):
    """The request itself is wrong; the same one will not succeed."""


class NotFound(KubeError):
    """No such object, or no such kind of object."""


class Gone(KubeError):
    """The resource version or the continue token is too old: list again."""


_BY_STATUS: dict[int, type[KubeError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: Retryable,
    409: Conflict,
    410: Gone,
    429: Retryable,
}


def error_class(status: int, reason: str = "", *, write: bool = False) -> type[KubeError]:
    """Return the class of an answer that is not a success.

    Any 5xx to a write is ambiguous, 503 included: a load balancer also sends it if the connection
    breaks after the API server did the work.
    """
    if status == 409 and reason == "AlreadyExists":
        return AlreadyExists
    if status >= 500:
        return Ambiguous if write else Retryable
    return _BY_STATUS.get(status, Invalid)


def refusal(
    status: int, body: bytes, *, write: bool = False, retry_after: str | None = None
) -> KubeError:
    """Make an error of an HTTP answer; a proxy's plain text is passed on as it is."""
    try:
        answer = msgspec.json.decode(body, type=Status)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        text = body[:_MAX_MESSAGE].decode(errors="replace").strip()
        answer = Status(message=text or f"HTTP {status} without a message")
    return from_status(answer, status=status, write=write, retry_after=retry_after)


def from_status(
    answer: Status, *, status: int = 0, write: bool = False, retry_after: str | None = None
) -> KubeError:
    """Make an error of a Status, as it comes with an answer or inside a watch stream."""
    status = status or answer.code or 500
    details = answer.details or StatusDetails()
    return error_class(status, answer.reason, write=write)(
        _shortened(answer.message) or answer.reason or f"HTTP {status}",
        status=status,
        reason=answer.reason,
        causes=details.causes or (),
        retry_after_seconds=_seconds(retry_after, details.retry_after_seconds),
    )


def _shortened(message: str) -> str:
    """Keep both ends of a message: the API server repeats the refused object before the reason."""
    if len(message) <= _MAX_MESSAGE:
        return message
    cut = " ... "
    head = (_MAX_MESSAGE - len(cut)) // 2
    return message[:head] + cut + message[head + len(cut) - _MAX_MESSAGE :]


def _seconds(header: str | None, in_body: float | None) -> float | None:
    """Return the longer pause of header and body; Kubernetes never sends a date in the header."""
    asked = [in_body] if in_body is not None else []
    if header is not None and header.strip().isdecimal():
        asked.append(float(header))
    return min(max(0.0, *asked), MAX_RETRY_AFTER_SECONDS) if asked else None
