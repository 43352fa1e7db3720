"""The pure parts of places in object stores: addresses, pieces, parts, and what errors say."""

import builtins
import sys
from itertools import pairwise
from typing import Any

import obstore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError
from obstore.store import MemoryStore, S3Store

from spotrun_trainer.checkpoint.places import is_address, open_storage
from spotrun_trainer.checkpoint.places.objects import MOST_PARTS, PART_BYTES, part_bytes
from spotrun_trainer.checkpoint.places.small_objects import create
from spotrun_trainer.store.addresses import Address
from spotrun_trainer.store.read_ahead import GAP_BYTES, PIECE_BYTES, cut
from spotrun_trainer.store.store_errors import CutOffError, DeniedError, as_os_error
from spotrun_trainer.store.stores import QUICKLY, connect

ADDRESSES = {
    "s3://bucket": Address("s3", "", "bucket", ""),
    "s3://bucket/": Address("s3", "", "bucket", ""),
    "gs://bucket/a//b/": Address("gs", "", "bucket", "a/b"),
    "az://account/container/a": Address("az", "account", "container", "a"),
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_is_read(text: str) -> None:
    assert is_address(text)
    address = Address.parse(text)
    assert address == ADDRESSES[text]
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    "text",
    ["s3://", "s3:///a", "s3://bucket/../other", "az://account", "s3://user:secret@bucket/a"],
)
def test_what_is_no_place_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not the address of a place in an object store: write s3://bucket"
    ):
        open_storage(text)


@pytest.mark.parametrize(
    "text", ["s3://KEY:SECRET@bucket/a", "s3://KEY:SEC/RET@bucket", "az://a/c/d?sv=1&sig=SECRET"]
)
def test_credentials_are_refused_and_not_shown(text: str) -> None:
    for other in (text, text.replace("://", "x://")):  # of a scheme that is none
        with pytest.raises(ValueError, match=r"bucket/prefix|only paths") as found:
            open_storage(other)
        assert "SEC" not in str(found.value)
        assert "RET" not in str(found.value)


def test_an_image_without_the_client_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name.partition(".")[0] == "obstore":
            raise ModuleNotFoundError(f"No module named {name!r}", name="obstore")
        return whole(name, *arguments)

    monkeypatch.delitem(sys.modules, "spotrun_trainer.checkpoint.places.objects", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"pip install 'spotrun\[trainer,store\]'"):
        open_storage("s3://bucket/a")


@given(
    st.lists(
        st.tuples(st.integers(0, 40 << 20), st.integers(1, 20 << 20)).map(
            lambda one: (one[0], one[0] + one[1])
        ),
        max_size=8,
    )
)
def test_pieces_cover_what_is_read_and_little_more(reads: list[tuple[int, int]]) -> None:
    found = list(cut(reads))
    assert found == sorted(found)
    assert all(0 < stop - start <= PIECE_BYTES for start, stop in found)
    assert all(one[1] <= other[0] for one, other in pairwise(found))
    for start, stop in reads:
        reached = start
        while reached < stop:
            reached = next(end for begin, end in found if begin <= reached < end)
    extra = sum(stop - start for start, stop in found) - union(reads)
    assert extra <= GAP_BYTES * len(reads)


def union(reads: list[tuple[int, int]]) -> int:
    total, reached = 0, 0
    for start, stop in sorted(reads):
        total += max(0, stop - max(start, reached))
        reached = max(reached, stop)
    return total


@pytest.mark.parametrize("size", [0, PART_BYTES, 10 << 30, 1 << 42, (1 << 42) + 1])
def test_there_are_never_more_parts_than_a_store_takes(size: int) -> None:
    part = part_bytes(size)
    assert part >= PART_BYTES
    assert part % (1 << 20) == 0
    assert -(-size // part) <= MOST_PARTS


def answer(status: int, code: str) -> str:
    return (
        f"Generic S3 error: Error performing PUT http://s/b/k in 1ms - Server returned non-2xx "
        f"status code: {status} Whatever: <Error><Code>{code}</Code><AWSAccessKeyId>AKIA1</Error>"
    )


def test_an_object_that_is_there_and_gone_again_is_not_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def put(*_arguments: object, **_named: object) -> None:
        raise AlreadyExistsError("x")

    monkeypatch.setattr(obstore, "put", put)
    assert not create(MemoryStore(), "OWNER", "s3://b/OWNER", b"a")


ABSENT = FileNotFoundError(answer(404, "NoSuchKey"))
ERRORS: dict[str, tuple[Exception, type[OSError], str]] = {
    "a missing object": (ABSENT, FileNotFoundError, "is not there"),
    "a missing bucket": (
        FileNotFoundError(answer(404, "NoSuchBucket")),
        DeniedError,
        "the bucket does not exist (404 NoSuchBucket)",
    ),
    "another was first": (AlreadyExistsError("x"), FileExistsError, "exists already"),
    "no rights": (
        PermissionDeniedError(answer(403, "AccessDenied")),
        DeniedError,
        "access was denied (403 AccessDenied)",
    ),
    "old credentials": (
        GenericError(answer(400, "ExpiredToken")),
        DeniedError,
        "the credentials have expired (400 ExpiredToken)",
    ),
    "too many requests": (
        GenericError(answer(503, "SlowDown")),
        OSError,
        "the store asks for fewer requests (503 SlowDown)",
    ),
    "a fault of the store": (
        GenericError(answer(500, "InternalError")),
        OSError,
        "the store failed (500 InternalError)",
    ),
    "no credentials": (
        GenericError("Error performing PUT http://169.254.169.254/latest/api/token in 1s"),
        DeniedError,
        "no credentials were found",
    ),
    "nobody there": (
        GenericError("Error performing PUT http://s/b/k in 1s - HTTP error: error sending request"),
        OSError,
        "the store cannot be reached (HTTP error: error sending request)",
    ),
    "half an answer": (
        GenericError("Error performing GET http://s/b/k - HTTP error: response body error"),
        CutOffError,
        "the store cannot be reached",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_of_a_store_is_one_of_a_file_system_in_a_sentence(case: str) -> None:
    raised, kind, said = ERRORS[case]
    with pytest.raises(OSError, match="s3://b/k") as found, as_os_error("s3://b/k"):
        raise raised
    assert type(found.value) is kind
    assert found.value.strerror is not None
    assert found.value.strerror.startswith(said)
    assert "AKIA1" not in str(found.value)


@pytest.mark.parametrize(
    ("env", "is_unsigned"),
    [
        ({}, True),
        ({"AWS_ENDPOINT_URL": "https://minio:9000"}, True),
        ({"AWS_ENDPOINT_URL": "http://minio:9000"}, False),
        ({"AWS_ENDPOINT_URL_S3": "http://minio:9000"}, False),
        ({"AWS_UNSIGNED_PAYLOAD": "false"}, False),
    ],
    ids=["AWS", "TLS", "no TLS", "no TLS for S3", "refused"],
)
def test_content_is_hashed_for_the_signature_only_where_tls_does_not_protect_it(
    env: dict[str, str], *, is_unsigned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AWS_UNSIGNED_PAYLOAD"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"AWS_REGION": "us-east-1", **env}.items():
        monkeypatch.setenv(name, value)
    store = connect(Address.parse("s3://bucket"), QUICKLY)
    assert isinstance(store, S3Store)
    assert ("unsigned_payload" in store.config) is is_unsigned
