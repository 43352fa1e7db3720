"""The assembly of the operator: from its options to the service that kopf's process opens."""

import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from random import Random
from urllib.parse import urlsplit

from spotrun.http.tls import MountedFiles, OwnSecret, Source
from spotrun.kube.lease import Terms
from spotrun.kube.resource import Key
from spotrun.kube.rest.access import Credentials
from spotrun.kube.rest.client import Client
from spotrun.kube.rest.transport import Transport
from spotrun.kube.watch.kopf_feed import Feed
from spotrun.observe.prices.aws import aws_questions
from spotrun.observe.prices.azure import azure_questions
from spotrun.observe.prices.gcp import gcp_questions
from spotrun.observe.prices.live import LivePrices
from spotrun.observe.prices.tables import PriceSources
from spotrun.runtime import cluster_access, kopf_host
from spotrun.runtime.agent_server import Settings as ServerSettings
from spotrun.runtime.controller import Controller, Settings
from spotrun.runtime.options import HostPort, Options

log = logging.getLogger(__name__)


async def assemble(options: Options) -> kopf_host.OpenService:
    """Return a function that opens the operator; raises AccessError or ValueError if it cannot."""
    credentials = Credentials(cluster_access.access(options))
    server = (await credentials.current()).server
    settings = settings_of(options, server)
    log.info(
        "spotrun %s serves %s of %s; agents connect to %s",
        version("spotrun"),
        "all namespaces" if options.watch_namespace is None else options.watch_namespace,
        server,
        settings.advertise,
    )

    @asynccontextmanager
    async def controller(feed: Feed) -> AsyncIterator[Controller]:
        user_agent = f"spotrun/{version('spotrun')}"
        async with Transport(credentials, user_agent=user_agent) as transport:
            client = Client(transport, field_manager="spotrun")
            source = _source(options, settings, client)
            async with Controller(settings, client, source, feed) as it:
                yield it

    return controller


def settings_of(options: Options, server: str) -> Settings:
    address = options.address or HostPort(_own_address(server), options.agents_port)
    if options.advertise is None and cluster_access.is_in_pod(options):
        raise ValueError(
            "--advertise is missing: workers live longer than this pod, so they need an address "
            "that stays; create a Service for the port of agents and give its address, such as "
            f"spotrun-agents.{cluster_access.own_namespace(options)}.svc:{options.agents_port}"
        )
    seconds, table = options.lease_seconds, options.price_table
    namespace = cluster_access.own_namespace(options)
    return Settings(
        namespace=namespace,
        advertise=(options.advertise or address).text,
        address=address.text,
        watch_namespace=options.watch_namespace,
        price_sources=PriceSources(
            table=Key(namespace, table) if table is not None else None,
            live=tuple(_live_prices(options)),
        ),
        inject_image=options.inject_image or "",
        trainer_image=options.trainer_image or "",
        restricted=options.restricted,
        kueue=options.kueue,
        kueue_priority_boost=options.kueue_priority_boost,
        preempt_across_namespaces=options.preempt_across_namespaces,
        workers=options.workers,
        agents=ServerSettings(host=options.agents_host, port=options.agents_port),
        plain_host=options.metrics_host,
        plain_port=options.metrics_port,
        # In client-go's proportions of 15, 10 and 2.
        terms=Terms(seconds, seconds * 2 / 3, seconds * 2 / 15),
    )


def _live_prices(options: Options) -> Iterator[LivePrices]:
    """Return the clouds that are asked for prices."""
    clock, roll = time.monotonic, Random().random  # noqa: S311 - jitter, not a secret
    if options.aws_prices is not None:
        try:
            questions = aws_questions(_now)
        except ValueError as error:
            raise ValueError(f"--aws-prices: {error}") from error
        yield LivePrices(options.aws_prices, questions, clock=clock, roll=roll)
    if options.azure_prices is not None:
        yield LivePrices(options.azure_prices, azure_questions(_now), clock=clock, roll=roll)
    if options.gcp_prices is not None:
        yield LivePrices(options.gcp_prices, gcp_questions(_now, clock), clock=clock, roll=roll)


def _now() -> datetime:
    return datetime.now(UTC)


def _own_address(server: str) -> str:
    """Return this machine's address as the API server sees it; only the kernel is asked."""
    pod_ip = os.environ.get("POD_IP")
    if pod_ip:
        return pod_ip
    parts = urlsplit(server)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_DGRAM)
        family, kind, _, _, address = found[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except (OSError, UnicodeError) as error:  # UnicodeError: the DNS has no such names
        raise ValueError(
            f"the API server {server} cannot be found ({error}), so the operator does not know "
            "which of this machine's addresses agents can reach: correct the kubeconfig, or give "
            "the address of this replica with --address HOST:PORT"
        ) from error


def _source(options: Options, settings: Settings, client: Client) -> Source:
    own = OwnSecret(client, namespace=settings.namespace)
    if options.tls_cert is None or options.tls_key is None or options.tls_ca is None:
        return own
    return MountedFiles(options.tls_cert, options.tls_key, options.tls_ca, own)
