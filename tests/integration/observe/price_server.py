"""Price servers of the tests as processes of their own."""

import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class PriceServer:
    """The process of a module that calls `serve`, for as long as a test needs it."""

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.host = self._process.stdout.readline().strip()

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)
        assert self._process.stdout is not None
        self._process.stdout.close()


def serve(handler: type[BaseHTTPRequestHandler]) -> None:
    """Answer on loopback for good, and say on stdout where."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    print(f"127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
