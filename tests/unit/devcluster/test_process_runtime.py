import asyncio
import json
import os
import signal
import sys
import textwrap
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from devcluster import reaper
from devcluster.kubelet.runtime import Container, Exit, Manifest, Sandbox, StartError
from devcluster.process.options import Options
from devcluster.process.runtime import ProcessRuntime

NODE: Manifest = {
    "metadata": {"name": "n1"},
    "status": {"addresses": [{"type": "InternalIP", "address": "127.9.0.1"}]},
}
Pods = Callable[..., Awaitable[Sandbox]]


class NoApi:
    async def get(self, path: str) -> Manifest:
        raise AssertionError(path)

    async def create(self, path: str, body: Manifest) -> Manifest:
        raise AssertionError(path)


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(
        root=tmp_path / "pods",
        memory=tmp_path / "memory",
        marker=uuid.uuid4().hex,
        server="https://127.9.0.1:6443",
        images={"train:1": ["/bin/echo", "image says"]},
    )


@pytest.fixture
async def pods(options: Options) -> AsyncIterator[Pods]:
    numbers = count(1)
    runtime = ProcessRuntime(NoApi(), options, lambda: f"127.9.1.{next(numbers)}")
    made: list[Sandbox] = []

    async def pod(**spec: Any) -> Sandbox:
        meta = {"name": "p", "namespace": "ns", "uid": str(uuid.uuid4())}
        manifest = {"metadata": meta, "spec": {"containers": [], **spec}}
        made.append(await runtime.sandbox(manifest, NODE))
        return made[-1]

    yield pod
    for sandbox in made:
        await sandbox.remove()
    assert reaper.marked(options.marker) == set()
    assert not options.root.exists() or list(options.root.iterdir()) == []


def sh(script: str, **more: Any) -> Manifest:
    return {"name": "main", "command": ["/bin/sh", "-c", script], **more}


def python(script: str, **more: Any) -> Manifest:
    return {"name": "main", "command": [sys.executable, "-c", textwrap.dedent(script)], **more}


async def output(sandbox: Sandbox, *, follow: bool = True, tail: int | None = None) -> str:
    chunks = [chunk async for chunk in sandbox.logs("main", follow=follow, tail=tail)]
    return b"".join(chunks).decode()


async def run(sandbox: Sandbox, container: Manifest, restarts: int = 0) -> Exit:
    return await (await sandbox.start(container, restarts)).wait()


async def first_output(sandbox: Sandbox) -> str:
    async for chunk in sandbox.logs("main", follow=True, tail=None):
        return chunk.decode().strip()
    raise AssertionError("the container ended without a word")


async def test_a_container_prints_and_completes(pods: Pods) -> None:
    pod = await pods()
    assert await run(pod, sh("echo out; echo err >&2")) == Exit(0)
    assert sorted((await output(pod)).split()) == ["err", "out"]


async def test_a_container_fails_with_its_code(pods: Pods) -> None:
    assert await run(await pods(), sh("exit 7")) == Exit(7)


async def test_command_and_args_are_expanded(pods: Pods) -> None:
    pod = await pods()
    env = [{"name": "WHO", "value": "world"}]
    container = {
        "name": "main",
        "command": ["/bin/echo", "hello $(WHO)"],
        "args": ["$$(WHO)", "$(NOBODY)"],
        "env": env,
    }
    await run(pod, container)
    assert await output(pod) == "hello world $(WHO) $(NOBODY)\n"


async def test_an_image_with_a_known_entrypoint_needs_no_command(pods: Pods) -> None:
    pod = await pods()
    await run(pod, {"name": "main", "image": "train:1", "args": ["hi"]})
    assert await output(pod) == "image says hi\n"


async def test_without_a_command_the_message_says_what_to_do(pods: Pods) -> None:
    with pytest.raises(StartError, match=r"image other:2.*`command`.*`images`"):
        await run(await pods(), {"name": "main", "image": "other:2", "args": ["--x"]})


async def test_a_program_that_does_not_exist_fails_the_container(pods: Pods) -> None:
    pod = await pods()
    ended = await run(pod, {"name": "main", "command": ["no-such-program"]})
    assert (ended.code, ended.reason) == (128, "StartError")
    assert "no-such-program" in ended.message
    assert await output(pod) == ""


async def test_the_environment_is_small_and_leads_to_the_api_server(
    pods: Pods, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_ONLY", "x")
    pod = await pods()
    await run(pod, python("import json, os; print(json.dumps(dict(os.environ)))"))
    seen = json.loads(await output(pod))
    assert "HOST_ONLY" not in seen
    assert seen["KUBERNETES_SERVICE_HOST"] == "127.9.0.1"
    assert seen["KUBERNETES_SERVICE_PORT"] == "6443"
    assert seen["HOSTNAME"] == "p"
    assert seen["CUDA_VISIBLE_DEVICES"] == ""
    assert await run(pod, sh('cd "$HOME" && cd "$TMPDIR"'), 1) == Exit(0)
    assert seen["PATH"] == os.environ["PATH"]


async def test_a_container_leads_a_session_of_its_own(pods: Pods) -> None:
    pod = await pods()
    await run(pod, python("import os; print(os.getsid(0) == os.getpid())"))
    assert await output(pod) == "True\n"


async def test_pods_have_addresses_of_their_own(pods: Pods) -> None:
    one, two, host = await pods(), await pods(), await pods(hostNetwork=True)
    assert len({one.pod_ip, two.pod_ip, host.pod_ip}) == 3
    assert host.pod_ip == "127.9.0.1"


async def test_the_working_directory_is_the_home_unless_said(pods: Pods) -> None:
    pod = await pods(volumes=[{"name": "v", "emptyDir": {}}])
    await run(pod, sh('test "$PWD" = "$HOME" && echo home'))
    assert await output(pod) == "home\n"
    mounts = [{"name": "v", "mountPath": "/work"}]
    await run(pod, sh("echo x >here; ls /work", workingDir="/work", volumeMounts=mounts), 1)
    assert await output(pod) == "here\n"
    await run(pod, sh("pwd", workingDir="/"), 2)
    assert await output(pod) == "/\n"
    with pytest.raises(StartError, match="workingDir /nowhere"):
        await run(pod, sh("pwd", workingDir="/nowhere"), 3)


@pytest.mark.parametrize("path", ["/dev/termination-log", "/custom/message"])
async def test_the_termination_message_is_read(pods: Pods, path: str) -> None:
    pod = await pods()
    container = sh(f"echo -n bye >{path}; exit 3", terminationMessagePath=path)
    assert await run(pod, container) == Exit(3, message="bye")
    own = sh('echo -n again >"$DEVCLUSTER_TERMINATION_LOG"', terminationMessagePath=path)
    assert await run(pod, own, 1) == Exit(0, message="again")
    assert await run(pod, sh(f"rm {path}", terminationMessagePath=path), 2) == Exit(0)


async def test_logs_are_followed_until_the_end(pods: Pods) -> None:
    pod = await pods()
    reader_said = "trap 'echo last; exit' TERM; echo first; while :; do sleep 0.01; done"
    container = await pod.start(sh(reader_said), 0)
    heard = []
    async for chunk in pod.logs("main", follow=True, tail=None):
        heard.append(chunk.decode())
        if len(heard) == 1:
            container.terminate()
    assert "".join(heard) == "first\nlast\n"


async def test_the_last_lines_are_read(pods: Pods) -> None:
    pod = await pods()
    await run(pod, python("print('\\n'.join(f'{n:07}' for n in range(50_000)))"))
    assert await output(pod, tail=2) == "0049998\n0049999\n"
    assert await output(pod, tail=0) == ""
    assert len((await output(pod, tail=40_000)).splitlines()) == 40_000
    assert len((await output(pod, tail=1_000_000)).splitlines()) == 50_000
    await run(pod, sh("printf 'a\\nb'"), 1)
    assert await output(pod, tail=1, follow=False) == "b"


async def test_each_attempt_has_its_own_log(pods: Pods) -> None:
    pod = await pods()
    await run(pod, sh("echo one"), 0)
    await run(pod, sh("echo two"), 1)
    assert await output(pod) == "two\n"


async def test_there_is_no_log_before_the_start(pods: Pods) -> None:
    with pytest.raises(LookupError, match="main of pod p has not started"):
        await output(await pods())


async def test_sigterm_goes_to_the_main_process(pods: Pods) -> None:
    pod = await pods()
    container = await pod.start(sh("echo up; exec sleep 1000"), 0)
    await first_output(pod)
    container.terminate()
    assert await container.wait() == Exit(128 + signal.SIGTERM)
    container.terminate()  # harmless, as is the next
    container.kill()


TREE = """
    import os, signal, subprocess, sys
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        print(os.getpid(), flush=True)
    signal.pause()
"""


async def test_sigkill_ends_the_tree_with_a_grandchild_in_another_session(
    pods: Pods, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, int]] = []
    kill = os.kill
    pod = await pods()
    container = await pod.start(python(TREE), 0)
    grandchild = int(await first_output(pod))
    assert grandchild in reaper.marked(options.marker)

    def record(pid: int, number: int) -> None:
        sent.append((pid, number))
        kill(pid, number)

    monkeypatch.setattr(os, "kill", record)
    container.kill()
    assert (grandchild, signal.SIGKILL) in sent
    assert await container.wait() == Exit(128 + signal.SIGKILL)
    assert reaper.marked(options.marker) == set()


async def test_what_the_main_process_leaves_behind_is_killed(pods: Pods, options: Options) -> None:
    pod = await pods()
    assert await run(pod, sh("setsid sleep 1000 & echo done")) == Exit(0)
    assert reaper.marked(options.marker) == set()


async def test_removing_a_pod_ends_it_and_leaves_no_file(pods: Pods, options: Options) -> None:
    pod = await pods(volumes=[{"name": "m", "emptyDir": {"medium": "Memory"}}])
    mounts = [{"name": "m", "mountPath": "/dev/shm"}]  # noqa: S108 - a mount path
    script = "echo x >/dev/shm/f; echo up; sleep 1000"
    container: Container = await pod.start(sh(script, volumeMounts=mounts), 0)
    await first_output(pod)
    assert len(list(options.memory.glob("*/m/f"))) == 1
    await pod.remove()
    assert (await container.wait()).code == 128 + signal.SIGKILL
    assert list(options.root.iterdir()) == list(options.memory.iterdir()) == []
    await pod.remove()


async def test_many_may_wait_and_be_cancelled(pods: Pods) -> None:
    pod = await pods()
    container = await pod.start(sh("echo up; exec sleep 1000"), 0)
    waiters = [asyncio.create_task(container.wait()) for _ in range(3)]
    await first_output(pod)
    waiters[0].cancel()
    container.kill()
    ended = await asyncio.gather(*waiters, return_exceptions=True)
    assert isinstance(ended[0], asyncio.CancelledError)
    assert ended[1:] == [Exit(137), Exit(137)]


async def test_an_escaped_writer_does_not_hold_up_the_end(
    pods: Pods, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("devcluster.process.container._OUTPUT_SECONDS", 0.1)
    pod = await pods()
    # Without the marker, in a session of its own and an orphan: nothing connects it any more.
    script = "(env -i setsid sh -c 'echo $$$$; exec sleep 1000' & ); read -r _ <wait"
    container = await pod.start(sh(f"mkfifo wait; {script}"), 0)
    escaped = int(await first_output(pod))
    container.terminate()
    try:
        assert (await container.wait()).code == 143
        assert await output(pod) == f"{escaped}\n"
    finally:
        os.kill(escaped, signal.SIGKILL)
    assert "left processes running" in caplog.text


async def test_a_termination_log_that_is_no_file_says_nothing(pods: Pods) -> None:
    script = 'rm "$DEVCLUSTER_TERMINATION_LOG"; mkdir "$DEVCLUSTER_TERMINATION_LOG"'
    assert await run(await pods(), sh(script)) == Exit(0)
