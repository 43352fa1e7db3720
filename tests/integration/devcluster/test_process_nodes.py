"""Pods that are local processes, under a real control plane."""

import asyncio
import subprocess
import sys
import textwrap
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from devcluster import reaper
from devcluster.client import Client, Manifest, at
from devcluster.cluster import Cluster
from devcluster.kubelet.lifecycle import Timing
from devcluster.nodes import Nodes
from devcluster.process.options import Options
from devcluster.process.runtime import ProcessRuntime

PODS = at("pods", "default")
FAST = Timing(restart_backoff=0.1, start_retry=0.1)
AUDIENCE = "spotrun.dev"


class Place:
    """One process node and the cluster that it belongs to."""

    def __init__(self, cluster: Cluster, client: Client, node: str, pods: Path) -> None:
        self.cluster = cluster
        self.client = client
        self.node = node
        self.pods = pods

    async def run(
        self, command: list[str], *, container: Manifest | None = None, **spec: Any
    ) -> str:
        name = f"p-{uuid.uuid4().hex[:8]}"
        wanted = {
            "containers": [
                {"name": "main", "image": "none", "command": command, **(container or {})}
            ],
            "nodeSelector": {"kubernetes.io/hostname": self.node},
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
        }
        await self.client.create(PODS, {"metadata": {"name": name}, "spec": wanted | spec})
        return name

    async def phase(self, name: str, phase: str) -> Manifest:
        pod = await self.client.until(
            PODS, name, lambda p: p is not None and p["status"].get("phase") == phase
        )
        assert pod is not None
        return pod

    async def gone(self, name: str) -> None:
        await self.client.until(PODS, name, lambda p: p is None)

    async def kubectl(self, *arguments: str) -> str:
        ran = await asyncio.to_thread(self.cluster.kubectl, *arguments)
        return ran.stdout

    def running(self, pod: Manifest) -> set[int]:
        return reaper.marked(self.cluster.marker, f"{pod['metadata']['uid']}/main/0")


@pytest.fixture
async def place(cluster: Cluster) -> AsyncIterator[Place]:
    name = f"n-{uuid.uuid4().hex[:8]}"
    options = Options(
        root=cluster.directory / name,
        memory=cluster.memory,
        marker=cluster.marker,
        server=cluster.admin.server,
    )
    async with Nodes(
        cluster.admin, address=cluster.block.host, tls=cluster.kubelet_tls(), timing=FAST
    ) as nodes:
        runtime = ProcessRuntime(nodes.client, options, cluster.block.pod_address)
        await nodes.add(name, runtime=runtime)
        yield Place(cluster, nodes.client, name, options.root)
    assert not options.root.exists() or list(options.root.iterdir()) == []


def terminated(pod: Manifest) -> Manifest:
    state: Manifest = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return {key: state[key] for key in ("exitCode", "reason", "message") if key in state}


def waiting(pod: Manifest | None) -> Manifest:
    statuses = pod["status"].get("containerStatuses", []) if pod is not None else []
    return next((s["state"]["waiting"] for s in statuses if "waiting" in s["state"]), {})


def python(script: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(script)]


async def test_a_pod_prints(place: Place) -> None:
    name = await place.run(["/bin/sh", "-c", "echo hello from $HOSTNAME; echo bye >&2"])
    pod = await place.phase(name, "Succeeded")
    assert terminated(pod) == {"exitCode": 0, "reason": "Completed"}
    assert await place.kubectl("logs", name) == f"hello from {name}\nbye\n"
    assert await place.kubectl("logs", name, "--tail=1") == "bye\n"
    assert pod["status"]["podIP"].startswith(f"127.{place.cluster.block.number}.")


async def test_a_pod_fails(place: Place) -> None:
    script = "echo trouble; echo -n why >/dev/termination-log; exit 3"
    name = await place.run(["/bin/sh", "-c", script])
    pod = await place.phase(name, "Failed")
    assert terminated(pod) == {"exitCode": 3, "reason": "Error", "message": "why"}
    assert await place.kubectl("logs", name) == "trouble\n"


async def test_a_silent_failure_is_told_from_the_log(place: Place) -> None:
    policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    name = await place.run(["/bin/sh", "-c", "echo last words; exit 1"], container=policy)
    pod = await place.phase(name, "Failed")
    assert terminated(pod)["message"] == "last words\n"


async def test_a_program_that_does_not_exist_fails_the_pod(place: Place) -> None:
    pod = await place.phase(await place.run(["no-such-program"]), "Failed")
    assert terminated(pod)["exitCode"] == 128
    assert "no-such-program" in terminated(pod)["message"]


async def test_a_pod_without_a_command_waits_and_says_why(place: Place) -> None:
    name = await place.run([])

    def told(pod: Manifest | None) -> bool:
        return "`command`" in waiting(pod).get("message", "")

    await place.client.until(PODS, name, told)


async def test_deletion_ends_a_tree_that_ignores_sigterm(place: Place) -> None:
    script = """
        import os, signal
        signal.signal(signal.SIGTERM, lambda *_: print("asked to end", flush=True))
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            print("grandchild", os.getpid(), flush=True)
        while True:
            signal.pause()
    """
    name = await place.run(python(script))
    pod = await place.phase(name, "Running")
    logs = await asyncio.create_subprocess_exec(
        str(place.cluster.binaries["kubectl"]),
        "logs",
        "-f",
        name,
        env=place.cluster.environment,
        stdout=subprocess.PIPE,
    )
    assert logs.stdout is not None
    grandchild = int((await logs.stdout.readline()).split()[1])
    assert grandchild in place.running(pod)
    await place.client.delete(f"{PODS}/{name}")
    assert await logs.stdout.readline() == b"asked to end\n"
    await place.gone(name)
    assert place.running(pod) == set()
    assert await logs.wait() == 0


async def test_a_token_volume_holds_what_token_review_accepts(place: Place) -> None:
    token = {"audience": AUDIENCE, "expirationSeconds": 600, "path": "token"}
    volume = {"name": "t", "projected": {"sources": [{"serviceAccountToken": token}]}}
    mount = {"name": "t", "mountPath": "/var/run/spotrun"}
    name = await place.run(
        ["/bin/cat", "/var/run/spotrun/token"],
        container={"volumeMounts": [mount]},
        volumes=[volume],
    )
    pod = await place.phase(name, "Succeeded")
    review = {"spec": {"token": await place.kubectl("logs", name), "audiences": [AUDIENCE]}}
    path = at("tokenreviews", group="authentication.k8s.io/v1")
    status = (await place.client.create(path, review))["status"]
    assert status["authenticated"]
    assert status["audiences"] == [AUDIENCE]
    extra = status["user"]["extra"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [pod["metadata"]["uid"]]
    assert extra["authentication.kubernetes.io/pod-name"] == [name]


async def test_the_default_service_account_reaches_the_api_server(place: Place) -> None:
    script = """
        import json, os, ssl, urllib.error, urllib.request
        folder = "/var/run/secrets/kubernetes.io/serviceaccount"
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        request = urllib.request.Request(
            f"https://{host}:{port}/api/v1/namespaces/default/pods",
            headers={"Authorization": "Bearer " + open(f"{folder}/token").read()},
        )
        try:
            urllib.request.urlopen(
                request, context=ssl.create_default_context(cafile=f"{folder}/ca.crt")
            )
        except urllib.error.HTTPError as error:
            print(error.code, json.load(error)["message"])
        print(open(f"{folder}/namespace").read())
    """
    name = await place.run(python(script))
    await place.phase(name, "Succeeded")
    said = await place.kubectl("logs", name)
    assert said.startswith('403 pods is forbidden: User "system:serviceaccount:default:default"')
    assert said.endswith("default\n")


async def test_config_maps_secrets_and_the_downward_api_reach_a_pod(place: Place) -> None:
    meta = {"name": f"c-{uuid.uuid4().hex[:8]}"}
    await place.client.create(
        at("configmaps", "default"), {"metadata": meta, "data": {"color": "red", "f": "file"}}
    )
    await place.client.create(
        at("secrets", "default"), {"metadata": meta, "stringData": {"key": "s3cret"}}
    )
    env = [
        {"name": "COLOR", "valueFrom": {"configMapKeyRef": {**meta, "key": "color"}}},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {**meta, "key": "key"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "GPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "PLACE", "value": "/config/f"},
    ]
    name = await place.run(
        ["/bin/sh", "-c", 'echo $COLOR $KEY $IP $GPUS; cat "$PLACE"'],
        container={
            "env": env,
            "volumeMounts": [{"name": "c", "mountPath": "/config"}],
            "resources": {"limits": {"cpu": "1"}},
        },
        volumes=[{"name": "c", "configMap": meta}],
    )
    pod = await place.phase(name, "Succeeded")
    assert await place.kubectl("logs", name) == f"red s3cret {pod['status']['podIP']} 1\nfile"


async def test_a_missing_config_map_holds_a_pod_up_until_it_is_there(place: Place) -> None:
    meta = {"name": f"c-{uuid.uuid4().hex[:8]}"}
    name = await place.run(
        ["/bin/cat", "/config/k"],
        container={"volumeMounts": [{"name": "c", "mountPath": "/config"}]},
        volumes=[{"name": "c", "configMap": meta}],
    )

    def held_up(pod: Manifest | None) -> bool:
        return waiting(pod).get("reason") == "FailedMount"

    await place.client.until(PODS, name, held_up)
    await place.client.create(
        at("configmaps", "default"), {"metadata": meta, "data": {"k": "here"}}
    )
    await place.phase(name, "Succeeded")
    assert await place.kubectl("logs", name) == "here"


async def test_a_container_is_restarted_where_its_policy_says_so(place: Place) -> None:
    script = "echo try; test -e /state/again && exit; touch /state/again; exit 1"
    name = await place.run(
        ["/bin/sh", "-c", script],
        container={"volumeMounts": [{"name": "s", "mountPath": "/state"}]},
        volumes=[{"name": "s", "emptyDir": {"medium": "Memory"}}],
        restartPolicy="OnFailure",
    )
    pod = await place.phase(name, "Succeeded")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1
    assert await place.kubectl("logs", name) == "try\n"
