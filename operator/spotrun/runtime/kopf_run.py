"""The operator as kopf's own command line starts it.

    kopf run --module spotrun.runtime.kopf_run --all-namespaces --standalone

Its options are the variables of docs/configuration.md, such as SPOTRUN_ADVERTISE; kopf does the
logging. `spotrun operator` is the same operator with its own flags.
"""

import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import kopf

from spotrun.http.probes import health, plain_server
from spotrun.kube.watch.kopf_feed import Feed
from spotrun.runtime import kopf_handlers
from spotrun.runtime.assembly import assemble
from spotrun.runtime.kopf_host import OpeningService, Service
from spotrun.runtime.options import read_environment


@asynccontextmanager
async def _open(feed: Feed) -> AsyncIterator[Service]:
    if logging.getLogger().level > logging.DEBUG:
        logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # two lines for each event
    options = read_environment()
    pages = {"/healthz": health(_hosted.stalled)}
    open_service = await assemble(options)
    async with (
        plain_server(pages, host=options.metrics_host, port=options.liveness_port),
        open_service(feed) as service,
    ):
        yield service


_hosted = OpeningService(_open, stop=lambda: signal.raise_signal(signal.SIGTERM))
kopf_handlers.register(kopf.get_default_registry(), _hosted)


@kopf.on.cleanup()
async def tell(**_: Any) -> None:  # noqa: ANN401 - kopf's keyword arguments
    """Fail the process if the operator failed."""
    if _hosted.failure is not None:
        raise kopf.PermanentError(str(_hosted.failure)) from _hosted.failure
