"""The Secret with the operator's own authority, kept by a real API server."""

import asyncio
import datetime
from datetime import timedelta
from pathlib import Path

import pytest

from spotrun.http.certificates import make_authority, sign_serving, term
from spotrun.http.tls import SECRETS, MountedFiles, OwnSecret, SecretObject, server_context, show
from spotrun.kube.errors import Retryable
from spotrun.kube.rest.client import Client
from tests.integration.agents.helpers import Any_

NOW = datetime.datetime.now(datetime.UTC)


def secret(client: Client, namespace: str, days: float = 0) -> OwnSecret:
    """As a replica sees it so many days from now."""
    moment = NOW + timedelta(days=days)
    return OwnSecret(client, namespace=namespace, now=lambda: moment)


def authorities(bundle: str) -> int:
    return bundle.count("BEGIN CERTIFICATE")


async def test_replicas_that_start_together_show_the_same(client: Client, namespace: str) -> None:
    first, *others = await asyncio.gather(*(secret(client, namespace).load() for _ in range(8)))

    assert all(other == first for other in others)
    assert authorities(first.bundle) == 1
    assert len(first.world_key) == 32
    show(server_context(), first.serving)
    assert "PRIVATE" not in repr(first)


async def test_looking_again_changes_nothing(client: Client, namespace: str) -> None:
    made = await secret(client, namespace).load()
    version = (await read(client, namespace)).metadata.resource_version

    assert await secret(client, namespace, days=50).load() == made
    assert (await read(client, namespace)).metadata.resource_version == version


async def read(client: Client, namespace: str) -> SecretObject:
    return await client.get(SECRETS, "spotrun-agents", SecretObject, namespace=namespace)


async def test_replicas_that_renew_together_agree_and_the_worlds_key_stays(
    client: Client, namespace: str
) -> None:
    made = await secret(client, namespace).load()

    seen = []
    for days in (70, 2 * 365 + 1, 3 * 365 - 29, 3 * 365 + 1):
        replicas = (secret(client, namespace, days).load() for _ in range(4))
        first, *others = await asyncio.gather(*replicas)
        assert all(other == first for other in others)
        seen.append(first)

    assert [authorities(one.bundle) for one in seen] == [1, 2, 2, 1]
    issuers = [term(one.serving.certificate).issuer for one in (made, *seen)]
    assert issuers[0] == issuers[1] == issuers[2] != issuers[3] == issuers[4]
    # The last one was fresh: only the authority that had ended was dropped.
    assert len({one.serving.certificate for one in (made, *seen)}) == 4
    assert {one.world_key for one in seen} == {made.world_key}
    data = (await read(client, namespace)).data or {}
    assert sorted(data) == ["ca.crt", "ca.key", "tls.crt", "tls.key", "world.key"]


async def test_without_a_namespace_it_is_said_which_one_to_make(client: Client) -> None:
    with pytest.raises(Retryable, match="kubectl create namespace nowhere"):
        await secret(client, "nowhere").load()


@pytest.mark.parametrize("damage", [{"tls.crt": None}, {"ca.crt": "aGVsbG8="}, {"world.key": None}])
async def test_a_damaged_secret_is_not_replaced_silently(
    client: Client, namespace: str, damage: dict[str, str | None]
) -> None:
    await secret(client, namespace).load()
    await client.patch(SECRETS, "spotrun-agents", {"data": damage}, Any_, namespace=namespace)

    with pytest.raises(ValueError, match=r"damaged.*delete it"):
        await secret(client, namespace).load()


async def test_mounted_files_are_shown_and_read_again(
    client: Client, namespace: str, tmp_path: Path
) -> None:
    files = {name: tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt")}

    def mount() -> str:
        authority = make_authority(NOW)
        pair = sign_serving(authority, NOW)
        files["tls.crt"].write_bytes(pair.certificate)
        files["tls.key"].write_bytes(pair.key)
        files["ca.crt"].write_bytes(authority.certificate)
        return authority.certificate.decode()

    own = secret(client, namespace)
    source = MountedFiles(files["tls.crt"], files["tls.key"], files["ca.crt"], own)
    for _ in range(2):
        bundle = mount()
        identity = await source.load()
        assert identity.bundle == bundle
        assert identity.serving.certificate == files["tls.crt"].read_bytes()
        assert identity.world_key == (await own.load()).world_key
