"""Single requests to an API server, for whoever has no event loop: faster than kubectl."""

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from devcluster.cluster import Cluster


@dataclass(frozen=True)
class Answer:
    """The API server's answer to a request."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def accepted(self) -> bool:
        assert self.status in (200, 201, 400, 403, 422), self.body
        return self.status in (200, 201)

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


def connect(cluster: Cluster) -> http.client.HTTPSConnection:
    """A connection of the cluster's admin, to be closed by whoever asked for it."""
    admin = cluster.admin
    address = urlsplit(admin.server).netloc
    return http.client.HTTPSConnection(address, context=admin.ssl_context(), timeout=30)


def ask(
    connection: http.client.HTTPSConnection,
    verb: str,
    path: str,
    body: Any = None,
    *,
    kind: str = "json",
    **headers: str,
) -> Answer:
    """Send one request and read its answer; of headers' names the dashes are underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = json.dumps(body) if body is not None else None
    connection.request(verb, path, content, {"Content-Type": f"application/{kind}", **named})
    response = connection.getresponse()
    return Answer(response.status, _body(response.read()), dict(response.headers))


def _body(content: bytes) -> dict[str, Any]:
    """Decode a body; text that is no JSON, as for a path that nobody serves, is a message."""
    try:
        decoded: dict[str, Any] = json.loads(content)
    except ValueError:
        return {"message": content.decode()}
    return decoded
