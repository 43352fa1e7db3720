"""An S3 server that runs while a test or a bench needs it."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from devcluster.addresses import free_port
from devcluster.s3 import program

HOST = "127.0.0.1"
ACCESS_KEY, SECRET_KEY = "test", "no-secret"
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Server:
    """A server that answers at a loopback address."""

    url: str
    folder: Path  # a folder in it is a bucket
    pid: int

    def make_bucket(self, name: str) -> None:
        """Make a bucket."""
        (self.folder / name).mkdir()

    def address(self, bucket: str) -> str:
        """Return the address of a bucket."""
        return f"s3://{bucket}"

    def environment(self, url: str = "") -> dict[str, str]:
        """Return the variables with which clients find it, or a proxy in front of it."""
        return {
            "AWS_ENDPOINT_URL": url or self.url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
        }


@contextmanager
def serving(folder: Path, env: Mapping[str, str] = {}) -> Iterator[Server]:
    """Serve the buckets below `folder`/buckets; the server's log is beside them.

    `env` is added to its environment: with the marker of a cluster it ends with that cluster.
    """
    buckets, port = folder / "buckets", free_port(HOST)
    buckets.mkdir(parents=True)
    command = [str(program.ensure(_say)), "--port", f"{HOST}:{port}", "--quiet", "--keep-alive"]
    own = {**env, "ROOT_ACCESS_KEY_ID": ACCESS_KEY, "ROOT_SECRET_ACCESS_KEY": SECRET_KEY}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "posix", str(buckets)],
            env={**os.environ, **own},
            stdout=log,
            stderr=log,
        )
    try:
        wait_until_it_answers(f"http://{HOST}:{port}", process)
        yield Server(f"http://{HOST}:{port}", buckets, process.pid)
    finally:
        process.kill()
        process.wait()


def wait_until_it_answers(url: str, process: "subprocess.Popen[bytes]") -> None:
    """Wait for a store's server; raises RuntimeError if it ends before."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while process.poll() is None and time.monotonic() < until:
        try:
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 - loopback
        except urllib.error.HTTPError:  # it answers, but refuses requests without a signature
            return
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"the store's server at {url} did not start: see its log")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
