"""The life of clusters: started, used side by side, killed in every way, and gone."""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import pytest

from devcluster import reaper, supervisor
from devcluster.__main__ import extra_flags
from devcluster.client import Client, Manifest, at
from devcluster.cluster import Cluster
from devcluster.controlplane import COMPONENTS, ControlPlaneError

ROOT = Path(__file__).parents[3]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def devcluster(tmp_path: Path) -> Run:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "devcluster", *arguments, f"--directory={tmp_path}/one"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def quiet(_: str) -> None:
    pass


def is_listening(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def assert_no_trace(cluster: Cluster) -> None:
    assert reaper.marked(cluster.marker) == set()
    assert not cluster.directory.exists()
    assert not cluster.memory.exists()
    assert not any(is_listening(cluster.block.host, port) for port in astuple(cluster.block.ports))


def test_two_clusters_live_side_by_side_and_leave_nothing() -> None:
    with Cluster(progress=quiet) as one, Cluster(progress=quiet) as two:
        one.kubectl("create", "namespace", "here")
        assert "here" in one.kubectl("get", "namespaces", "-o", "name").stdout
        assert "here" not in two.kubectl("get", "namespaces", "-o", "name").stdout
    assert_no_trace(one)
    assert_no_trace(two)


def test_logs_can_outlive_the_cluster(tmp_path: Path) -> None:
    with Cluster(progress=quiet, logs=tmp_path) as cluster:
        pass
    assert_no_trace(cluster)
    assert {log.stem for log in tmp_path.glob("*.log")} == set(COMPONENTS)


def test_a_component_that_does_not_start_is_named_with_the_end_of_its_log() -> None:
    flags = extra_flags(["kube-apiserver:--no-such-flag=1"])
    cluster = Cluster(progress=quiet, extra_flags=flags)
    with pytest.raises(ControlPlaneError, match=r"(?s)kube-apiserver ended.*no-such-flag"):
        cluster.__enter__()
    assert_no_trace(cluster)


def test_a_component_can_be_killed_and_started_again() -> None:
    with Cluster(progress=quiet) as cluster:
        cluster.kubectl("create", "namespace", "kept")
        for component in ("kube-apiserver", "etcd"):
            cluster.control.kill(component)
        assert cluster.kubectl("get", "namespaces", check=False).returncode != 0
        for component in ("etcd", "kube-apiserver"):
            cluster.control.start(component)
        cluster.control.wait_ready()
        assert "kept" in cluster.kubectl("get", "namespaces", "-o", "name").stdout


async def test_who_waits_for_an_object_outlives_its_api_server() -> None:
    with Cluster(progress=quiet) as cluster:
        async with Client(cluster.admin) as client:
            is_waiting = asyncio.Event()

            def holds(seen: Manifest | None) -> bool:
                is_waiting.set()
                return seen is not None

            waits = asyncio.create_task(client.until(at("namespaces"), "late", holds))
            await is_waiting.wait()
            cluster.control.kill("kube-apiserver")
            cluster.control.start("kube-apiserver")
            await asyncio.to_thread(cluster.control.wait_ready)
            await client.create(at("namespaces"), {"metadata": {"name": "late"}})
            found = await waits
    assert found is not None
    assert found["metadata"]["name"] == "late"


def test_kill_9_of_the_owner_leaves_nothing(tmp_path: Path) -> None:
    script = (
        "import sys, json; from devcluster.cluster import Cluster\n"
        "with Cluster() as c:\n"
        "    print(json.dumps([c.marker, str(c.directory)]), flush=True)\n"
        "    sys.stdin.read()\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert owner.stdout is not None
    marker, directory = json.loads(owner.stdout.readline())
    assert len(reaper.marked(marker)) == len(COMPONENTS)
    watchdog = watchdog_of(marker)
    owner.kill()
    owner.communicate()
    wait_gone(watchdog)
    assert reaper.marked(marker) == set()
    assert not Path(directory).exists()


def test_down_cleans_up_after_kill_9_of_everything_and_up_works_again(
    devcluster: Run, tmp_path: Path
) -> None:
    assert devcluster("up").returncode == 0
    state = supervisor.read_state(tmp_path / "one")
    assert state is not None
    everything = {watchdog_of(state.marker), state.pid, *reaper.marked(state.marker)}
    for pid in everything:
        os.kill(pid, signal.SIGSTOP)
    for pid in everything:
        os.kill(pid, signal.SIGKILL)
    for pid in everything:
        wait_gone(pid)

    assert "no cluster runs" in devcluster("status").stderr
    assert devcluster("down").returncode == 0
    assert not (tmp_path / "one").exists()

    assert devcluster("up").returncode == 0
    assert "runs already" in devcluster("up").stdout
    down = devcluster("down")
    assert "is down" in down.stdout, down.stderr
    assert list(tmp_path.iterdir()) == []


def test_commands_tell_what_is_wrong(devcluster: Run) -> None:
    assert "was not up" in devcluster("down").stdout
    refused = devcluster("up", "--flag=kubelet:--v=1")
    assert (refused.returncode, "COMPONENT:--name=value" in refused.stderr) == (2, True)
    assert devcluster("up").returncode == 0
    try:
        added = devcluster("add-node", "a", "--kind=scripted", "--gpus=8", "--label=team=ml")
        assert "node a is ready" in added.stdout, added.stderr
        again = devcluster("add-node", "a")
        assert "already" in again.stderr
        assert "there are: a" in devcluster("vanish", "b").stderr
        status = json.loads(devcluster("status", "-o", "json").stdout)
        assert status["nodes"] == [{"name": "a", "kind": "scripted"}]
        assert set(status["components"]) == set(COMPONENTS)
        assert "node a announces its end at" in devcluster("notice", "a").stdout
        assert "KUBECONFIG" in devcluster("env").stdout
    finally:
        devcluster("down")


def watchdog_of(marker: str) -> int:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command = (entry / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if reaper.__file__.encode() in command and marker.encode() in command:
                return int(entry.name)
    raise AssertionError(f"no watchdog of {marker}")


def wait_gone(pid: int) -> None:
    """A pidfd becomes readable when its process ends, child or not."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = select.select([descriptor], [], [], 20)
        assert ready, f"process {pid} still lives"
    finally:
        os.close(descriptor)
