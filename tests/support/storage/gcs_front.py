"""The XML API of Google Cloud Storage before the S3 server, as far as obstore speaks it.

The two are alike in paths, listings, ranges, and uploads in parts, which the S3 server does. What
is not alike is translated here, as Google documents it: a bearer token, a condition on the
generation of an object, and that the removal of an object that is not there fails. No emulator
from a registry has that API: fake-gcs-server and gcp-storage-emulator take JSON only.
"""

import importlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import aiohttp
from aiohttp import web
from yarl import URL

from devcluster.s3 import server as s3
from tests.faults.reverse import before, whole

TOKEN = "no-secret"  # noqa: S105 - of a server for tests
_ERROR = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{}</Code><Message>no</Message></Error>'
_PASSED_ON = {"range", "if-match", "if-none-match"}
_CONDITION = "x-goog-if-generation-match"


@dataclass(frozen=True)
class GcsServer:
    """A server that answers at an address of loopback."""

    url: str
    behind: s3.Server

    def make_bucket(self, name: str) -> None:
        """Make a bucket."""
        self.behind.make_bucket(name)

    def address(self, bucket: str) -> str:
        """Return the address of a bucket."""
        return f"gs://{bucket}"

    def environment(self, url: str = "") -> dict[str, str]:
        """Return the variables by which clients find it, or a proxy before it."""
        return {"GOOGLE_BASE_URL": url or self.url, "GOOGLE_BEARER_TOKEN": TOKEN}


@contextmanager
def fronting(server: s3.Server) -> Iterator[GcsServer]:
    """Serve the buckets of an S3 server."""

    async def handle(incoming: web.Request, session: aiohttp.ClientSession) -> web.StreamResponse:
        if incoming.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.Response(status=401, text=_ERROR.format("AuthenticationRequired"))
        if incoming.method == "DELETE" and "uploadId" not in incoming.query:
            found = await _ask(session, server.url, "HEAD", incoming)
            if found.status == 404:
                return web.Response(status=404, text=_ERROR.format("NoSuchKey"))
        return await _ask(session, server.url, incoming.method, incoming)

    with before(handle) as url:
        yield GcsServer(url, server)


async def _ask(
    session: aiohttp.ClientSession, upstream: str, method: str, incoming: web.Request
) -> web.Response:
    """Return the S3 server's answer to a request."""
    body = await incoming.read()
    path, _, query = incoming.raw_path.partition("?")
    url = f"{upstream}{quote(unquote(path), safe='/~')}{query and '?' + query}"
    headers = {key: value for key, value in incoming.headers.items() if key.lower() in _PASSED_ON}
    if _CONDITION in incoming.headers:
        assert incoming.headers[_CONDITION] == "0", "only: if there is none"
        headers["If-None-Match"] = "*"
    async with session.request(
        method,
        URL(url, encoded=True),
        headers=_signed(method, url, headers, body),
        data=io.BytesIO(body) if body else None,
    ) as answer:
        kept = {
            key: value
            for key, value in answer.headers.items()
            if key.lower() not in {"transfer-encoding", "connection", "date"}
        }
        return whole(incoming, answer.status, kept, await answer.read())


def _signed(method: str, url: str, headers: dict[str, str], body: bytes) -> dict[str, str]:
    """Return the headers with the signature of the S3 server's user."""
    request: Any = importlib.import_module("botocore.awsrequest").AWSRequest(
        method=method, url=url, headers=headers, data=body
    )
    user = importlib.import_module("botocore.credentials").Credentials(s3.ACCESS_KEY, s3.SECRET_KEY)
    importlib.import_module("botocore.auth").S3SigV4Auth(user, "s3", "us-east-1").add_auth(request)
    return dict(request.headers.items())
