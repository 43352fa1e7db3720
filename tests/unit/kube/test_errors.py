import json
from typing import Any

import pytest

from spotrun.kube.errors import (
    MAX_RETRY_AFTER_SECONDS,
    AlreadyExists,
    Ambiguous,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    Retryable,
    Status,
    Unauthorized,
    error_class,
    from_status,
    refusal,
)


@pytest.mark.parametrize(
    ("status", "reason", "to_a_read", "to_a_write"),
    [
        (302, "", Invalid, Invalid),
        (400, "BadRequest", Invalid, Invalid),
        (401, "Unauthorized", Unauthorized, Unauthorized),
        (403, "Forbidden", Forbidden, Forbidden),
        (404, "NotFound", NotFound, NotFound),
        (405, "MethodNotAllowed", Invalid, Invalid),
        (408, "", Retryable, Retryable),
        (409, "AlreadyExists", AlreadyExists, AlreadyExists),
        (409, "Conflict", Conflict, Conflict),
        (409, "", Conflict, Conflict),
        (410, "Expired", Gone, Gone),
        (413, "RequestEntityTooLarge", Invalid, Invalid),
        (415, "UnsupportedMediaType", Invalid, Invalid),
        (422, "Invalid", Invalid, Invalid),
        (429, "TooManyRequests", Retryable, Retryable),
        (500, "InternalError", Retryable, Ambiguous),
        (500, "ServerTimeout", Retryable, Ambiguous),
        (502, "", Retryable, Ambiguous),
        (503, "ServiceUnavailable", Retryable, Ambiguous),
        (504, "Timeout", Retryable, Ambiguous),
    ],
)
def test_every_status_has_a_class(
    status: int, reason: str, to_a_read: type[KubeError], to_a_write: type[KubeError]
) -> None:
    assert error_class(status, reason) is to_a_read
    assert error_class(status, reason, write=True) is to_a_write


def answer(**status: Any) -> bytes:
    return json.dumps({"kind": "Status", "apiVersion": "v1", **status}).encode()


def test_kubernetes_words_and_causes_are_kept() -> None:
    cause = {"reason": "FieldValueInvalid", "message": "must be small", "field": "spec.x"}
    error = refusal(
        422, answer(message="x is invalid", reason="Invalid", details={"causes": [cause]})
    )
    assert str(error) == "x is invalid"
    assert (error.status, error.reason) == (422, "Invalid")
    assert [(c.reason, c.message, c.field) for c in error.causes] == [
        ("FieldValueInvalid", "must be small", "spec.x")
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "HTTP 502 without a message"),
        (b"<h1>Bad Gateway</h1>\n", "<h1>Bad Gateway</h1>"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[1, 2]", "[1, 2]"),
        (b'{"message": 5}', '{"message": 5}'),
        (b'{"kind": "Status"}', "HTTP 502"),
        (b'{"reason": "BadGateway"}', "BadGateway"),
    ],
)
def test_what_is_no_status_is_passed_on_as_it_is(body: bytes, message: str) -> None:
    assert refusal(502, body).message == message


def test_a_page_of_megabytes_becomes_a_short_message() -> None:
    assert len(refusal(502, b"x" * 5_000_000).message) == 2000
    assert len(refusal(500, answer(message="x" * 5_000_000)).message) == 2000


def test_of_a_long_refusal_the_reason_at_its_end_is_kept() -> None:
    refused = "patch: Invalid value: " + "x" * 5_000_000
    why = 'unknown field "status.cost.soFar"'

    message = refusal(422, answer(message=f"{refused}: {why}")).message

    assert message.startswith("patch: Invalid value: xx")
    assert message.endswith(f"xx: {why}")
    assert len(message) == 2000


@pytest.mark.parametrize(
    ("header", "in_body", "seconds"),
    [
        (None, None, None),
        ("3", None, 3.0),
        (None, 4, 4.0),
        ("3", 4, 4.0),
        ("5", 4, 5.0),
        ("0", None, 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None, None),
        ("-1", None, None),
        ("nan", 2, 2.0),
        ("1000000000", None, MAX_RETRY_AFTER_SECONDS),
        (None, 1e300, MAX_RETRY_AFTER_SECONDS),
        (None, -5, 0.0),
    ],
)
def test_retry_after_is_the_longer_of_header_and_body(
    header: str | None, in_body: float | None, seconds: float | None
) -> None:
    details = {} if in_body is None else {"retryAfterSeconds": in_body}
    error = refusal(429, answer(details=details), retry_after=header)
    assert error.retry_after_seconds == seconds


def test_an_error_in_a_stream_is_classified_by_its_own_code() -> None:
    assert type(from_status(Status(code=410, reason="Expired"))) is Gone
    assert type(from_status(Status())) is Retryable
