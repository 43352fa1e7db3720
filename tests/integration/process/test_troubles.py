"""What keeps the operator from working is said, waited for, and got over: it does not end."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from spotrun.kube.lease import LEASES
from tests.faults.proxy import FaultProxy
from tests.faults.rules import FOR_EVER, Rule
from tests.integration.process.helpers import (
    IN_ORDER_SECONDS,
    Launcher,
    Replica,
    grant_rights,
    launching,
    take_rights,
    token,
    write_kubeconfig,
)
from tests.support.cluster.operator_world import World


@pytest.fixture
async def proxy(cluster: Cluster) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(cluster.admin.server, cluster.admin.ssl_context()) as proxy:
        yield proxy


@pytest.fixture
async def behind(
    world: World, account: Path, proxy: FaultProxy, tmp_path: Path
) -> AsyncIterator[Launcher]:
    """Launches operators that reach the API server through the proxy."""
    kubeconfig = write_kubeconfig(
        world.cluster, token(world.cluster), tmp_path / "faulty", proxy.url
    )
    async with launching(world, kubeconfig, tmp_path) as launcher:
        yield launcher


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        pytest.param(
            Rule("drop", times=FOR_EVER),
            "the API server cannot be asked for trainingjobs, the operator waits: ",
            id="unreachable",
        ),
        pytest.param(
            Rule("reply", status=503, times=FOR_EVER),
            "the API server cannot be asked for trainingjobs, the operator waits: ",
            id="overloaded",
        ),
        pytest.param(
            Rule("reply", status=401, times=FOR_EVER),
            "the API server does not accept the operator's credentials: has the token expired",
            id="unauthorized",
        ),
        pytest.param(
            Rule("reply", status=404, path="/trainingjobs", times=FOR_EVER),
            "the cluster does not know trainingjobs: install the CRDs (`kubectl apply",
            id="no definitions",
        ),
    ],
)
async def test_what_is_wrong_at_the_start_is_said_and_waited_for(
    behind: Launcher, proxy: FaultProxy, rule: Rule, words: str
) -> None:
    proxy.inject(rule)
    replica = await behind.start()

    await replica.until_logged(words)
    assert await _status(replica, replica.at.liveness_port, "/healthz") == 200
    assert await _status(replica, replica.at.metrics_port, "/readyz") == 503

    proxy.heal(rule)
    await replica.until_logged("everything can be listed now")
    await replica.until_leading()
    assert await _status(replica, replica.at.metrics_port, "/readyz") == 200
    assert await replica.stop() < IN_ORDER_SECONDS


async def test_missing_rights_are_said_and_waited_for(
    world: World, cluster: Cluster, account: Path, tmp_path: Path
) -> None:
    take_rights(cluster)
    async with launching(world, account, tmp_path) as operator:
        replica = await operator.start()
        line = await replica.until_logged("the operator's account may not list trainingjobs")
        assert "apply manifests/rbac.yaml" in line["message"]
        assert 'cannot list resource "trainingjobs"' in line["message"]
        grant_rights(cluster, "rbac.yaml")
        await replica.until_leading()


async def test_it_ends_in_order_without_an_api_server(behind: Launcher, proxy: FaultProxy) -> None:
    replica = await behind.start()
    await replica.until_leading()
    proxy.inject(Rule("drop", times=FOR_EVER))

    assert await replica.stop() < IN_ORDER_SECONDS


async def test_a_second_sigterm_ends_it_on_the_spot(behind: Launcher, proxy: FaultProxy) -> None:
    replica = await behind.start("--lease-seconds", "300")
    await replica.until_leading()
    proxy.inject(Rule("hold", verb="patch", path=f"/{LEASES.plural}/", times=FOR_EVER))
    replica.process.send_signal(signal.SIGTERM)
    await replica.until_logged("SIGTERM: stopping")
    await asyncio.sleep(0.5)
    assert replica.process.returncode is None, "its Lease is not released yet"

    replica.process.send_signal(signal.SIGTERM)
    assert await replica.ended() == -signal.SIGTERM


async def test_a_port_in_use_ends_it_with_a_word(operator: Launcher) -> None:
    first = await operator.start()
    await first.until_leading()
    second = await operator.start(where=first.at)

    assert await second.ended() == 1
    (last,) = second.lines(level="error", logger="spotrun.cli.operator_process.command")
    assert "address already in use" in last["message"].lower()
    assert "--agents-port" in last["message"]


async def test_a_wrong_flag_ends_it_at_once(operator: Launcher) -> None:
    replica = await operator.start("--workers", "many")

    assert await replica.ended() == 2
    assert "--workers: 'many' is not in its range: use a whole number" in replica.text


async def _status(replica: Replica, port: int, path: str) -> int:
    status, _ = await replica.get(port, path)
    return status
