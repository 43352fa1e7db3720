import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from devcluster.client import ApiError
from devcluster.kubelet.runtime import Manifest, Sandbox, StartError
from devcluster.process.options import Options
from devcluster.process.runtime import ProcessRuntime
from devcluster.process.tokens import renewal_delay_seconds

NODE: Manifest = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "3"}}}
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a mount path
ISSUE = "/api/v1/namespaces/ns/serviceaccounts/robot/token"
_ATTEMPTS = count()


class FakeApi:
    """Objects by path, and tokens that are numbered."""

    def __init__(self) -> None:
        self.objects: dict[str, Manifest] = {}
        self.requests: list[tuple[str, Manifest]] = []
        self.token_seconds = 3600.0
        self.failures: list[Exception] = []
        self.renewed = asyncio.Event()

    def add(self, plural: str, name: str, *, namespace: str | None = "ns", **content: Any) -> None:
        place = f"/namespaces/{namespace}" if namespace else ""
        self.objects[f"/api/v1{place}/{plural}/{name}"] = content

    async def get(self, path: str) -> Manifest:
        if self.failures:
            raise self.failures.pop(0)
        if path not in self.objects:
            raise ApiError(404, "NotFound", f"{path} not found")
        return self.objects[path]

    async def create(self, path: str, body: Manifest) -> Manifest:
        if self.failures:
            raise self.failures.pop(0)
        self.requests.append((path, body))
        expires = datetime.now(UTC) + timedelta(seconds=self.token_seconds)
        if len(self.requests) > 2:
            self.renewed.set()
            expires += timedelta(hours=1)
        text = expires.isoformat().replace("+00:00", "Z")
        return {"status": {"token": f"t{len(self.requests)}", "expirationTimestamp": text}}


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


Mounted = Callable[..., Awaitable[str]]
Made = Callable[..., Awaitable[Sandbox]]


@pytest.fixture
async def make(api: FakeApi, tmp_path: Path) -> AsyncIterator[Made]:
    options = Options(
        root=tmp_path / "pods",
        memory=tmp_path / "memory",
        marker=uuid.uuid4().hex,
        server="https://127.9.0.1:6443",
    )
    runtime = ProcessRuntime(api, options, lambda: "127.9.1.1")
    made: list[Sandbox] = []

    async def sandbox(**volume: Any) -> Sandbox:
        meta = {"name": "p", "namespace": "ns", "uid": str(uuid.uuid4()), "labels": {"a": "b"}}
        spec = {
            "serviceAccountName": "robot",
            "volumes": [{"name": "v", **volume}],
            "containers": [{"name": "main", "resources": {"limits": {"memory": "1Gi"}}}],
        }
        made.append(await runtime.sandbox({"metadata": meta, "spec": spec}, NODE))
        return made[-1]

    yield sandbox
    for one in made:
        await one.remove()
    assert not options.root.exists() or list(options.root.iterdir()) == []


async def shell(pod: Sandbox, script: str, **mount: Any) -> str:
    container: Manifest = {
        "name": "main",
        "command": ["/bin/sh", "-ec", script],
        "env": [{"name": "WHO", "value": "me"}],
        "volumeMounts": [{"name": "v", "mountPath": "/v", **mount}],
    }
    ended = await (await pod.start(container, next(_ATTEMPTS))).wait()
    text = b"".join([chunk async for chunk in pod.logs("main", follow=True, tail=None)]).decode()
    assert ended.code == 0, text
    return text


async def test_an_empty_directory_is_shared_and_open_to_all(make: Made) -> None:
    pod = await make(emptyDir={"sizeLimit": "1Gi"})
    assert await shell(pod, "echo x >/v/f; stat -c %a /v") == "777\n"
    assert await shell(pod, "cat /other/f", mountPath="/other") == "x\n"


async def test_sub_paths_are_made_and_mapped(make: Made) -> None:
    pod = await make(emptyDir={})
    await shell(pod, "echo x >/sub/f", mountPath="/sub", subPath="a/b")
    assert await shell(pod, "cat /v/a/b/f") == "x\n"
    assert await shell(pod, "cat /file", mountPath="/file", subPath="a/b/f") == "x\n"
    await shell(pod, "echo y >/sub/f", mountPath="/sub", subPathExpr="$(WHO)")
    assert await shell(pod, "cat /v/me/f") == "y\n"


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        ({"mountPath": "/"}, "cannot mount a volume at /"),
        ({"subPath": "../x"}, "subPath ../x"),
        ({"subPathExpr": "$(NOBODY)"}, "subPath"),
    ],
)
async def test_mounts_that_cannot_be_say_so(
    make: Made, mount: dict[str, str], message: str
) -> None:
    pod = await make(emptyDir={})
    with pytest.raises(StartError, match=message):
        await shell(pod, "true", **mount)


async def test_mounts_can_be_looked_up(make: Made) -> None:
    pod = await make(emptyDir={})
    told = json.loads(await shell(pod, 'echo "$DEVCLUSTER_MOUNTS"; echo x >/v/f'))
    assert set(told) == {"/v", "/dev/termination-log"}
    assert await shell(pod, f"cat {told['/v']}/f") == "x\n"


@pytest.mark.parametrize("kind", ["", "DirectoryOrCreate"])
async def test_host_directories_are_made(make: Made, tmp_path: Path, kind: str) -> None:
    pod = await make(hostPath={"path": str(tmp_path / "data"), "type": kind})
    await shell(pod, "echo x >/v/f")
    await pod.remove()
    assert (tmp_path / "data" / "f").read_text() == "x\n"


async def test_a_host_file_can_be_made(make: Made, tmp_path: Path) -> None:
    await make(hostPath={"path": str(tmp_path / "file"), "type": "FileOrCreate"})
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.parametrize("kind", ["Directory", "File", "Socket", "CharDevice", "BlockDevice"])
async def test_host_paths_must_be_what_they_say(make: Made, tmp_path: Path, kind: str) -> None:
    with pytest.raises(StartError, match=f'volume "v".*is not a {kind}') as caught:
        await make(hostPath={"path": str(tmp_path / "none"), "type": kind})
    assert caught.value.reason == "FailedMount"


async def test_config_maps_become_files(api: FakeApi, make: Made) -> None:
    binary = {"raw": base64.b64encode(b"\x00\xff").decode()}
    api.add("configmaps", "cm", data={"a": "1", "b": "2"}, binaryData=binary)
    pod = await make(configMap={"name": "cm", "defaultMode": 0o600})
    assert await shell(pod, "cat /v/a /v/b; stat -c %a /v/a; wc -c </v/raw") == "12600\n2\n"
    items = [{"key": "a", "path": "deep/er/x", "mode": 0o755}]
    pod = await make(configMap={"name": "cm", "items": items})
    assert await shell(pod, "cd /v; find . -type f; stat -c %a deep/er/x") == "./deep/er/x\n755\n"


async def test_secrets_become_files(api: FakeApi, make: Made) -> None:
    api.add("secrets", "s", data={"password": base64.b64encode(b"s3cret").decode()})
    pod = await make(secret={"secretName": "s"})
    assert await shell(pod, "cat /v/password") == "s3cret"


async def test_the_downward_api_becomes_files(make: Made) -> None:
    limit = {"containerName": "main", "resource": "limits.memory", "divisor": "1Mi"}
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "memory", "resourceFieldRef": limit},
    ]
    pod = await make(downwardAPI={"items": items})
    assert await shell(pod, "cat /v/labels; echo; cat /v/memory") == 'a="b"\n1024'


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        (
            {"configMap": {"name": "cm", "items": [{"key": "z", "path": "z"}]}},
            "non-existent key: z",
        ),
        ({"nfs": {"server": "s", "path": "/"}}, "no nfs volumes"),
        ({"csi": {"driver": "d"}}, "no csi volumes"),
        (
            {"projected": {"sources": [{"clusterTrustBundle": {}}]}},
            "no projected clusterTrustBundle",
        ),
        ({"persistentVolumeClaim": {"claimName": "none"}}, '"none" not found'),
        ({"persistentVolumeClaim": {"claimName": "pending"}}, "not bound yet"),
        ({"persistentVolumeClaim": {"claimName": "cloud"}}, "neither hostPath nor local"),
        ({"persistentVolumeClaim": {"claimName": "lost"}}, '"gone" not found'),
    ],
)
async def test_volumes_that_cannot_be_say_so(
    api: FakeApi, make: Made, volume: Manifest, message: str
) -> None:
    api.add("configmaps", "cm", data={"a": "1"})
    api.add("persistentvolumeclaims", "pending", spec={})
    api.add("persistentvolumeclaims", "cloud", spec={"volumeName": "pv-cloud"})
    api.add("persistentvolumeclaims", "lost", spec={"volumeName": "gone"})
    api.add("persistentvolumes", "pv-cloud", namespace=None, spec={"nfs": {}})
    with pytest.raises(StartError, match=message) as caught:
        await make(**volume)
    assert caught.value.reason == "FailedMount"


async def test_what_is_optional_may_be_absent(api: FakeApi, make: Made) -> None:
    api.add("configmaps", "cm", data={"a": "1"})
    assert await shell(await make(secret={"secretName": "none", "optional": True}), "ls /v") == ""
    items = [{"key": "a", "path": "a"}, {"key": "z", "path": "z"}]
    pod = await make(configMap={"name": "cm", "items": items, "optional": True})
    assert await shell(pod, "ls /v") == "a\n"


@pytest.mark.parametrize("kind", ["hostPath", "local"])
async def test_claims_of_local_volumes_are_mounted(
    api: FakeApi, make: Made, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "pv").mkdir()
    api.add("persistentvolumeclaims", "claim", spec={"volumeName": "pv"})
    api.add("persistentvolumeclaims", "p-v", spec={"volumeName": "pv"})
    api.add("persistentvolumes", "pv", namespace=None, spec={kind: {"path": str(tmp_path / "pv")}})
    pod = await make(persistentVolumeClaim={"claimName": "claim"})
    await shell(pod, "echo x >/v/f")
    assert await shell(await make(ephemeral={}), "cat /v/f") == "x\n"


def access_volume(seconds: int = 3607) -> Manifest:
    token = {"path": "token", "expirationSeconds": seconds}
    ours = {"path": "ours/token", "audience": "spotrun.dev"}
    ca = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return {
        "sources": [
            {"serviceAccountToken": token},
            {"configMap": ca},
            {"serviceAccountToken": ours},
        ]
    }


async def test_tokens_are_requested_for_the_pod(api: FakeApi, make: Made) -> None:
    api.add("configmaps", "kube-root-ca.crt", data={"ca.crt": "CA"})
    pod = await make(projected=access_volume())
    script = f"cd {TOKEN_PATH}; cat token ca.crt ours/token"
    assert await shell(pod, script, mountPath=TOKEN_PATH) == "t1CAt2"
    (path, first), (_, second) = api.requests
    assert path == ISSUE
    assert first["spec"]["expirationSeconds"] == 3607
    assert "audiences" not in first["spec"]
    assert second["spec"]["audiences"] == ["spotrun.dev"]
    assert {first["spec"]["boundObjectRef"][key] for key in ("kind", "name")} == {"Pod", "p"}


async def test_tokens_are_renewed(
    api: FakeApi, make: Made, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("devcluster.process.tokens._RETRY_SECONDS", 0.01)
    api.add("configmaps", "kube-root-ca.crt", data={"ca.crt": "CA"})
    api.token_seconds = 0.2
    pod = await make(projected=access_volume())
    api.failures.append(aiohttp.ClientConnectionError("away"))
    await api.renewed.wait()
    assert "no new token for pod ns/p: away" in caplog.text
    assert await shell(pod, "cat /v/token") != "t1" or await shell(pod, "cat /v/ours/token") != "t2"


@pytest.mark.parametrize("error", [ApiError(403, "Forbidden", "no"), aiohttp.ClientError("away")])
async def test_what_the_api_server_refuses_is_told(
    api: FakeApi, make: Made, error: Exception
) -> None:
    api.failures.append(error)
    with pytest.raises(StartError, match=r"no|away") as caught:
        await make(configMap={"name": "cm"})
    assert caught.value.reason == "FailedMount"


@pytest.mark.parametrize(("life_seconds", "delay"), [(3600, 2880.0), (600, 480.0), (-5, 0.0)])
def test_renewal_comes_at_four_fifths_of_a_life(life_seconds: int, delay: float) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert renewal_delay_seconds(now + timedelta(seconds=life_seconds), now) == delay
