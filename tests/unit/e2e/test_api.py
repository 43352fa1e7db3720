"""The API server, through a stand-in for `kubectl proxy`."""

import sys
from types import SimpleNamespace
from typing import cast

import pytest

from devcluster.client import at
from tests.e2e.api import open_client
from tests.e2e.cluster import Cluster
from tests.e2e.kind.machine import SetupError

PROXY = """
import http.server, os, socketserver, stat, sys
command, option = sys.argv[1:]
path = option.removeprefix("--unix-socket=")

class Handler(http.server.BaseHTTPRequestHandler):
    def address_string(self):
        return "a socket"
    def do_GET(self):
        open_to = stat.filemode(os.stat(os.path.dirname(path)).st_mode)
        body = ('{"asked": "%s %s", "folder": "%s"}' % (command, self.path, open_to)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

server = socketserver.UnixStreamServer(path, Handler)
print("Starting to serve on", path, flush=True)
server.serve_forever()
"""


def reached_by(script: str) -> Cluster:
    return cast("Cluster", SimpleNamespace(kubectl_command=(sys.executable, "-c", script)))


async def test_the_api_server_is_asked_on_a_socket_that_nobody_else_reaches() -> None:
    async with open_client(reached_by(PROXY)) as kube:
        answer = await kube.get(at("pods", "team"))

    assert answer == {"asked": "proxy /api/v1/namespaces/team/pods", "folder": "drwx------"}


async def test_a_proxy_that_does_not_begin_says_why() -> None:
    script = "import sys; sys.exit('you must be logged in')"

    with pytest.raises(SetupError, match=r"kubectl proxy has ended: you must be logged in$"):
        async with open_client(reached_by(script)):
            pass
