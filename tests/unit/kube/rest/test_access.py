"""When credentials are read again, and what happens when they cannot be."""

import asyncio
import json
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from spotrun.http.certificates import make_authority
from spotrun.kube.rest.access import (
    FRESH_SECONDS,
    Access,
    AccessError,
    Credentials,
    Load,
    from_kubeconfig,
    in_cluster,
)


class Loads:
    """Hands out token after token; an error in their place is raised."""

    def __init__(self, *tokens: str | AccessError, fresh_seconds: float | None = None) -> None:
        self.tokens = list(tokens)
        self.fresh_seconds = fresh_seconds

    async def __call__(self) -> Access:
        await asyncio.sleep(0)
        token = self.tokens.pop(0)
        if isinstance(token, AccessError):
            raise token
        tls = ssl.create_default_context()
        return Access("https://x", token, tls, b"same", fresh_seconds=self.fresh_seconds)


async def test_what_is_fresh_is_not_read_again() -> None:
    now = [0.0]
    credentials = Credentials(Loads("a", "b", fresh_seconds=60), clock=lambda: now[0])
    assert (await credentials.current()).authorization == "a"
    now[0] = 59.9
    assert (await credentials.current()).authorization == "a"
    now[0] = 60
    assert (await credentials.current()).authorization == "b"


async def test_new_tokens_keep_the_connections() -> None:
    credentials = Credentials(Loads("a", "b"))
    a = await credentials.current()
    b = await credentials.replace(a)
    assert b.authorization == "b"
    assert b.tls is a.tls


async def test_many_that_were_refused_at_once_read_once() -> None:
    loads = Loads("a", "b", "c")
    credentials = Credentials(loads)
    a = await credentials.current()
    replaced = await asyncio.gather(*(credentials.replace(a) for _ in range(10)))
    assert {access.authorization for access in replaced} == {"b"}
    assert loads.tokens == ["c"]


async def test_a_file_that_is_gone_for_a_moment_does_not_matter(
    caplog: pytest.LogCaptureFixture,
) -> None:
    credentials = Credentials(Loads("a", AccessError("no token"), "b"))
    a = await credentials.current()
    assert (await credentials.replace(a)).authorization == "a"
    assert "no token" in caplog.text
    assert (await credentials.replace(await credentials.current())).authorization == "b"


async def test_without_any_credentials_there_is_an_error() -> None:
    with pytest.raises(AccessError, match="no token"):
        await Credentials(Loads(AccessError("no token"))).current()


def test_tokens_are_not_shown() -> None:
    assert "secret" not in repr(Access("https://x", "secret"))


SERVER = {"server": "https://192.0.2.7:6443"}


def a_kubeconfig(cluster: dict[str, Any], user: dict[str, Any], **parts: Any) -> str:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "one", "user": "me"}}],
        "clusters": [{"name": "one", "cluster": cluster}],
        "users": [{"name": "me", "user": user}],
    }
    return json.dumps(content | parts)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("", "it is no kubeconfig", id="empty"),
        pytest.param("some words", "it is no kubeconfig", id="not a mapping"),
        pytest.param("clusters: [", "while parsing a flow", id="not YAML"),
        pytest.param(a_kubeconfig(SERVER, {}, users=[]), "it is no kubeconfig, or", id="no user"),
        pytest.param(a_kubeconfig(SERVER, {}, clusters=[]), "name one", id="no cluster"),
        pytest.param(a_kubeconfig({"server": "192.0.2.7:6443"}, {}), "no URL", id="no scheme"),
        pytest.param(a_kubeconfig({"server": "https://[::1"}, {}), "no URL", id="half a bracket"),
        pytest.param(
            a_kubeconfig(SERVER | {"certificate-authority-data": "bm9uZQ=="}, {}),
            "the certificate authority is no certificate",
            id="no authority",
        ),
        pytest.param(
            a_kubeconfig(
                SERVER, {"client-certificate-data": "bm9uZQ==", "client-key-data": "bm9uZQ=="}
            ),
            "the client certificate or key cannot be read",
            id="no certificate",
        ),
    ],
)
async def test_what_is_wrong_with_a_kubeconfig_is_said(
    tmp_path: Path, text: str, complaint: str
) -> None:
    file = tmp_path / "config"
    file.write_text(text)

    with pytest.raises(AccessError) as refused:
        await from_kubeconfig(file)()

    assert str(refused.value).startswith(f"{file} cannot be used: ")
    assert complaint in str(refused.value)


async def test_a_certificate_that_is_half_written_leaves_the_old_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "config"
    file.write_text(a_kubeconfig(SERVER, {"token": "old"}))
    credentials = Credentials(from_kubeconfig(file))
    old = await credentials.current()
    file.write_text(a_kubeconfig(SERVER | {"certificate-authority-data": "LS0t"}, {"token": "new"}))

    assert (await credentials.replace(old)).authorization == "Bearer old"
    assert "certificate authority" in caplog.text


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A pod's token, and the environment that says where the API server is."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "ca.crt").write_bytes(make_authority(datetime.now(UTC)).certificate)
    token = tmp_path / "token"
    token.write_text("t1\n")
    return token


async def loaded(load: Load) -> Access:
    return await load()


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_a_pod_reads_its_token_each_time(
    pod: Path, monkeypatch: pytest.MonkeyPatch, host: str, server: str
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    load = in_cluster(str(pod), str(pod.with_name("ca.crt")))
    found = asyncio.run(loaded(load))
    assert (found.server, found.authorization) == (server, "Bearer t1")
    assert found.fresh_seconds == FRESH_SECONDS
    pod.write_text("t2")
    assert asyncio.run(loaded(load)).authorization == "Bearer t2"


def test_a_pod_without_its_token_or_its_environment_says_what_is_missing(
    pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = in_cluster(str(pod), str(pod.with_name("ca.crt")))
    pod.write_text("\n")
    with pytest.raises(AccessError, match="token is empty"):
        asyncio.run(loaded(load))
    pod.unlink()
    with pytest.raises(AccessError, match=r"token is missing: .*No such file"):
        asyncio.run(loaded(load))
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT")
    with pytest.raises(AccessError, match=r"not run in a pod.*KUBERNETES_SERVICE_PORT"):
        asyncio.run(loaded(load))
