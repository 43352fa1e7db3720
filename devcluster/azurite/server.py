"""An Azure Blob Storage server that runs while a test needs it."""

import base64
import hashlib
import hmac
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from devcluster.addresses import free_port
from devcluster.azurite import program
from devcluster.s3.server import wait_until_it_answers

HOST, ACCOUNT = "127.0.0.1", "test"
KEY = base64.b64encode(b"no secret").decode()
_VERSION = "2021-12-02"  # of the API, for the request that makes a container


@dataclass(frozen=True)
class Server:
    """A server that answers at a loopback address."""

    url: str

    def make_bucket(self, name: str) -> None:
        """Make a container with a request that is signed here: obstore cannot make one."""
        path = f"/{ACCOUNT}/{name}"
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION}
        named = "\n".join(f"{key}:{value}" for key, value in sorted(headers.items()))
        text = f"PUT{12 * chr(10)}{named}\n/{ACCOUNT}{path}\nrestype:container"
        digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        asked = urllib.request.Request(  # noqa: S310 - loopback
            f"{self.url}{path}?restype=container", method="PUT", headers=headers
        )
        urllib.request.urlopen(asked, timeout=30).close()  # noqa: S310 - loopback

    def address(self, bucket: str) -> str:
        """Return the address of a container."""
        return f"az://{ACCOUNT}/{bucket}"

    def environment(self, url: str = "") -> dict[str, str]:
        """Return the variables with which clients find it, or a proxy in front of it."""
        return {
            "AZURE_STORAGE_ENDPOINT": f"{url or self.url}/{ACCOUNT}",
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        }


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Serve what is in memory; the server's log is in the folder."""
    port = free_port(HOST)
    command = ["node", str(program.ensure(_say)), "--blobHost", HOST, "--blobPort", str(port)]
    command += ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    with (folder / "azurite.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        wait_until_it_answers(f"http://{HOST}:{port}", process)
        yield Server(f"http://{HOST}:{port}")
    finally:
        process.kill()
        process.wait()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
