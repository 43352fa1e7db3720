"""The kubelet API, as far as `kubectl logs` needs it; one server for all nodes."""

import ssl
from collections.abc import Callable

from aiohttp import web

from devcluster.kubelet.pod import PodWorker

FindPod = Callable[[str, str], PodWorker | None]

# Sandboxes store no times and no earlier runs; requests for these are refused with a message.
UNSUPPORTED = ("timestamps", "sinceSeconds", "sinceTime", "stream")


class KubeletServer:
    """Serves logs of the pods that `find` knows, by namespace and name."""

    def __init__(self, find: FindPod, tls: ssl.SSLContext | None) -> None:
        self._find = find
        self._tls = tls
        app = web.Application()
        app.router.add_get("/healthz", _healthz)
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        # Readers that follow logs stay while a container runs: do not wait for them.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def start(self, address: str, port: int) -> int:
        """Listen, and return the port (a free one was taken for 0)."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, address, port, ssl_context=self._tls)
        await site.start()
        taken: int = self._runner.addresses[0][1]
        return taken

    async def stop(self) -> None:
        """Close every connection."""
        server = self._runner.server
        for connection in server.connections if server is not None else ():
            if connection.transport is not None:
                # With an orderly end, TLS would wait for the other side and outlive the event loop.
                connection.transport.abort()
        await self._runner.cleanup()

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        namespace, pod, container = (
            request.match_info[k] for k in ("namespace", "pod", "container")
        )
        worker = self._find(namespace, pod)
        if worker is None:
            return _refuse(404, f'pod "{namespace}/{pod}" is not on a node of this kubelet')
        if refusal := _unsupported(request):
            return _refuse(400, refusal)
        if not worker.has_container(container):
            return _refuse(404, f'container "{container}" is not in pod "{pod}"')
        sandbox, reason = worker.sandbox, worker.waiting_reason(container)
        if sandbox is None or reason is not None:
            message = f'container "{container}" in pod "{pod}" is waiting to start: '
            return _refuse(400, message + (reason or "ContainerCreating"))
        tail = request.query.get("tailLines")
        left = int(request.query.get("limitBytes", -1))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        lines = sandbox.logs(
            container,
            follow=request.query.get("follow") == "true",
            tail=int(tail) if tail is not None else None,
        )
        async for line in lines:
            part = line if left < 0 else line[:left]
            await response.write(part)
            if left >= 0:
                left -= len(part)
                if left == 0:
                    break
        return response


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok")


def _unsupported(request: web.Request) -> str | None:
    if request.query.get("previous") == "true":
        return "devcluster keeps no logs of earlier runs: leave out --previous"
    for option in UNSUPPORTED:
        if request.query.get(option) not in (None, "false", "All"):
            return f"devcluster's kubelet does not know the log option {option}"
    return None


def _refuse(status: int, message: str) -> web.Response:
    return web.Response(status=status, text=message + "\n")
