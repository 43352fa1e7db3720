"""Kubeconfigs: read as the Kubernetes client reads them, and refused in words."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from spotrun.kube.rest.access import AccessError, from_kubeconfig
from spotrun.kube.rest.kubeconfig import choose, files_named

SERVER = "https://192.0.2.7:6443"


def config(user: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **more}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "ml"}},
            {"name": "there", "context": {"cluster": "c", "user": "u"}},
        ],
    }


def write(path: Path, text: str) -> None:
    path.write_text(text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config"


@pytest.mark.parametrize(
    ("user", "more"),
    [
        ({"token": "secret"}, {"insecure-skip-tls-verify": True}),
        ({"tokenFile": "token"}, {"tls-server-name": "api.example"}),
        ({}, {}),
    ],
    ids=["a token", "a token's file", "nobody"],
)
async def test_what_is_read_here_is_what_the_client_reads(
    file: Path, user: dict[str, Any], more: dict[str, Any]
) -> None:
    write(file.parent / "token", "from a file\n")
    write(file, yaml.safe_dump(config(user, **more)))
    ours, theirs = await choose([file]).load(), await from_kubeconfig(file)()
    for name in ("server", "authorization", "tls_digest", "server_name", "proxy", "fresh_seconds"):
        assert getattr(ours, name) == getattr(theirs, name), name


def test_a_context_has_its_namespace(file: Path) -> None:
    file.write_text(yaml.safe_dump(config({"token": "a"})))
    assert (choose([file]).namespace, choose([file], "there").namespace) == ("ml", "default")


def test_the_first_of_several_files_counts(file: Path) -> None:
    other = file.with_name("other")
    file.write_text(yaml.safe_dump({"contexts": [], "current-context": "there"}))
    other.write_text(yaml.safe_dump(config({"token": "a"})))
    assert choose([file, other]).context == "there"


async def test_the_client_reads_the_context_that_is_shown(file: Path) -> None:
    other = file.with_name("other")
    write(file, yaml.safe_dump(config({"username": "a", "password": "b"})))
    elsewhere = {
        "current-context": "away",
        "clusters": [{"name": "away", "cluster": {"server": "https://192.0.2.9:6443"}}],
        "contexts": [{"name": "away", "context": {"cluster": "away", "user": "u"}}],
    }
    write(other, yaml.safe_dump(elsewhere))
    chosen = choose([file, other])
    assert (chosen.context, (await chosen.load()).server) == ("here", SERVER)


def test_nobody_acts_with_more_rights_than_the_kubeconfig_says(file: Path) -> None:
    write(file, yaml.safe_dump(config({"token": "a", "as": "viewer"})))
    with pytest.raises(AccessError, match="acts as somebody else"):
        choose([file])


@pytest.mark.parametrize("user", [{"token": "a"}, {"exec": {"command": "aws"}}])
def test_only_a_true_skips_the_check_of_certificates(file: Path, user: dict[str, Any]) -> None:
    write(file, yaml.safe_dump(config(user, **{"insecure-skip-tls-verify": "false"})))
    with pytest.raises(AccessError, match="neither true nor false"):
        choose([file])


def test_a_plugin_is_left_to_the_client(file: Path) -> None:
    file.write_text(yaml.safe_dump(config({"exec": {"command": "aws"}})))
    assert "from_kubeconfig" in choose([file]).load.__qualname__


@pytest.mark.parametrize(
    ("text", "context", "said"),
    [
        ("[", None, "cannot be read as a kubeconfig"),
        ("[]", None, "is no kubeconfig"),
        ("{}", None, "names no current context"),
        ("{current-context: a, contexts: 5}", None, "is no kubeconfig"),
        ("{current-context: a, users: [{name: u, user: {client-key: 5}}]}", None, "is no kube"),
        ("{current-context: a, contexts: [{name: a, context: text}]}", None, "is no kubeconfig"),
        ("FULL", "nowhere", "there is no context 'nowhere'.*it has here, there"),
    ],
)
def test_what_is_wrong_is_said(file: Path, text: str, context: str | None, said: str) -> None:
    full = yaml.safe_dump(config({"token": "a"}))
    file.write_text(text.replace("FULL", full))
    with pytest.raises(AccessError, match=said):
        choose([file], context)


@pytest.mark.parametrize(
    ("user", "more", "said"),
    [
        ({"tokenFile": "gone"}, {}, "gone"),
        ({"token": "a"}, {"server": "nonsense"}, "is no URL"),
        ({"token": "a"}, {"certificate-authority-data": "%%%"}, "cannot be used"),
        (
            {"token": "a"},
            {"certificate-authority-data": base64.b64encode(b"x").decode()},
            "is no certificate",
        ),
    ],
)
async def test_an_access_that_cannot_be_used_says_why(
    file: Path, user: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    write(file, yaml.safe_dump(config(user, **more)))
    with pytest.raises(AccessError, match=said):
        await choose([file]).load()


def test_files_are_found_as_kubectl_finds_them(tmp_path: Path) -> None:
    home, other = tmp_path / ".kube/config", tmp_path / "other"
    home.parent.mkdir()
    home.touch()
    other.touch()
    both = f"{other}{os.pathsep}{tmp_path / 'gone'}"
    assert files_named(None, {}, tmp_path) == [home]
    assert files_named(None, {"KUBECONFIG": both}, tmp_path) == [other]
    assert files_named(str(home), {"KUBECONFIG": both}, tmp_path) == [home]


@pytest.mark.parametrize("user", [{"token": "a"}, {"username": "a", "password": "b"}])
@pytest.mark.parametrize(
    ("more", "proxy"),
    [({}, "http://env:1"), ({"proxy-url": "http://file:2"}, "http://file:2")],
)
async def test_a_proxy_is_that_of_the_file_or_else_of_the_environment(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    user: dict[str, Any],
    more: dict[str, Any],
    proxy: str,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "env:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    write(file, yaml.safe_dump(config(user, **more)))
    assert (await choose([file]).load()).proxy == proxy
    monkeypatch.setenv("NO_PROXY", "192.0.2.0/24")
    assert (await choose([file]).load()).proxy == more.get("proxy-url")
