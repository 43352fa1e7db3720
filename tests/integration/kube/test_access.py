"""Who we are to the API server: kubeconfigs, tokens that rotate, plugins, pods."""

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import Cluster
from spotrun.kube.errors import Forbidden, Unauthorized
from spotrun.kube.rest.access import AccessError, Credentials, Load, from_kubeconfig, in_cluster
from spotrun.kube.rest.client import Client
from spotrun.kube.rest.transport import Transport
from tests.integration.kube.helpers import CONFIG_MAPS, ConfigMap, Space


def token(cluster: Cluster, space: Space) -> str:
    made = cluster.kubectl("-n", space.namespace, "create", "token", "default")
    return made.stdout.strip()


def write_kubeconfig(cluster: Cluster, folder: Path, user: dict[str, Any]) -> Path:
    path = folder / "kubeconfig"
    config = json.loads(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = user
    path.write_text(json.dumps(config))
    return path


async def whoami(load: Load, space: Space) -> str:
    """The name by which RBAC refuses us."""
    async with Transport(Credentials(load)) as transport:
        client = Client(transport, field_manager="test")
        with pytest.raises(Forbidden) as refused:
            await client.get(CONFIG_MAPS, "a", ConfigMap, namespace=space.namespace)
    return refused.value.message.split('"')[3]


@pytest.fixture
async def account(cluster: Cluster, space: Space) -> str:
    cluster.kubectl("-n", space.namespace, "create", "serviceaccount", "default", check=False)
    return f"system:serviceaccount:{space.namespace}:default"


async def test_a_token_in_a_kubeconfig(
    cluster: Cluster, space: Space, account: str, tmp_path: Path
) -> None:
    path = write_kubeconfig(cluster, tmp_path, {"token": token(cluster, space)})
    assert await whoami(from_kubeconfig(path), space) == account


async def test_a_pods_service_account(
    cluster: Cluster,
    space: Space,
    account: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host, _, port = cluster.admin.server.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    (tmp_path / "token").write_text(token(cluster, space))
    load = in_cluster(str(tmp_path / "token"), str(cluster.admin.ca_file))
    assert await whoami(load, space) == account


async def test_outside_of_a_pod_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="does not run in a pod"):
        await in_cluster(str(tmp_path / "token"))()


async def test_an_exec_plugin(cluster: Cluster, space: Space, account: str, tmp_path: Path) -> None:
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": token(cluster, space), "expirationTimestamp": "2099-01-01T00:00:00Z"},
    }
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!{sys.executable}\nprint({json.dumps(credential)!r})\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": credential["apiVersion"], "command": str(plugin)}}
    path = write_kubeconfig(cluster, tmp_path, user)
    assert await whoami(from_kubeconfig(path), space) == account


async def test_an_exec_plugin_that_fails_is_not_taken_for_nobody(
    cluster: Cluster, tmp_path: Path
) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false"}}
    path = write_kubeconfig(cluster, tmp_path, user)
    with pytest.raises(AccessError, match="exec plugin"):
        await from_kubeconfig(path)()


async def test_a_rotated_token_file_is_read_again_after_a_401(
    cluster: Cluster, space: Space, account: str, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("expired")
    path = write_kubeconfig(cluster, tmp_path, {"tokenFile": str(token_file)})
    async with Transport(Credentials(from_kubeconfig(path))) as transport:
        client = Client(transport, field_manager="test")
        with pytest.raises(Unauthorized):
            await client.get(CONFIG_MAPS, "a", ConfigMap, namespace=space.namespace)
        token_file.write_text(token(cluster, space))
        with pytest.raises(Forbidden, match=account):
            await client.get(CONFIG_MAPS, "a", ConfigMap, namespace=space.namespace)


async def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="nothing-here"):
        await from_kubeconfig(tmp_path / "nothing-here")()
