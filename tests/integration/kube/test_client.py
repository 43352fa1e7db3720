"""What the API server answers to our requests, and what is known when it does not answer."""

import json
from typing import Any

import msgspec
import pytest

from spotrun.kube.errors import (
    AlreadyExists,
    Ambiguous,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    Retryable,
    Unauthorized,
)
from spotrun.kube.resource import Meta
from spotrun.kube.rest.client import Client
from tests.faults.proxy import FaultProxy
from tests.faults.rules import Action, Rule
from tests.integration.kube.helpers import (
    CONFIG_MAPS,
    NAMESPACES,
    ConfigMap,
    Space,
    config_map,
)


async def names(space: Space) -> list[str]:
    listing = await space.client.list_all(space.selection, ConfigMap)
    return [item.metadata.name for item in listing.items]


async def test_an_object_is_created_read_listed_patched_and_deleted(space: Space) -> None:
    client, ns = space.client, space.namespace
    made = await client.create(CONFIG_MAPS, config_map("a", x="1"), ConfigMap, namespace=ns)
    assert await client.get(CONFIG_MAPS, "a", ConfigMap, namespace=ns) == made
    merged = await client.patch(CONFIG_MAPS, "a", {"data": {"y": "2"}}, ConfigMap, namespace=ns)
    assert merged.data == {"x": "1", "y": "2"}
    operations = [{"op": "remove", "path": "/data/x"}]
    patched = await client.patch(CONFIG_MAPS, "a", operations, ConfigMap, namespace=ns)
    assert patched.data == {"y": "2"}
    listing = await client.list_all(space.selection, ConfigMap, page=1)
    assert listing.items == (patched,)
    assert listing.version >= patched.metadata.version
    await client.delete(CONFIG_MAPS, "a", uid=made.metadata.uid, namespace=ns)
    assert await names(space) == []


class Name(msgspec.Struct, frozen=True):
    metadata: Meta


@pytest.mark.parametrize("as_type", [Name, ConfigMap])
async def test_an_answer_of_which_only_metadata_is_read_is_metadata(
    space: Space, monkeypatch: pytest.MonkeyPatch, as_type: type[Name | ConfigMap]
) -> None:
    answers: list[dict[str, Any]] = []
    request = space.client._transport.request

    async def kept(*args: Any, **options: Any) -> bytes:
        answers.append(json.loads(answer := await request(*args, **options)))
        return answer

    monkeypatch.setattr(space.client._transport, "request", kept)
    client, ns = space.client, space.namespace
    made = await client.create(CONFIG_MAPS, config_map("a", x="1"), as_type, namespace=ns)
    patched = await client.patch(CONFIG_MAPS, "a", {"data": {"x": "2"}}, as_type, namespace=ns)
    left = await client.delete(CONFIG_MAPS, "a", uid=made.metadata.uid, namespace=ns)
    assert (made.metadata.name, patched.metadata.uid) == ("a", made.metadata.uid)
    assert patched.metadata.version > made.metadata.version
    assert left is None
    assert ["data" in answer for answer in answers[:2]] == [as_type is ConfigMap] * 2
    assert await names(space) == []


async def test_refusals_come_as_classes_with_kubernetes_words(space: Space) -> None:
    client, ns = space.client, space.namespace
    a = await space.put("a")
    with pytest.raises(NotFound, match='configmaps "b" not found'):
        await client.get(CONFIG_MAPS, "b", ConfigMap, namespace=ns)
    with pytest.raises(AlreadyExists, match="already exists"):
        await client.create(CONFIG_MAPS, config_map("a"), ConfigMap, namespace=ns)
    with pytest.raises(Invalid, match="lowercase RFC 1123") as invalid:
        await client.create(CONFIG_MAPS, config_map("A_"), ConfigMap, namespace=ns)
    assert [cause.field for cause in invalid.value.causes] == ["metadata.name"]
    with pytest.raises(Invalid, match="unknown field"):
        await client.create(CONFIG_MAPS, {**config_map("c"), "dta": {}}, ConfigMap, namespace=ns)
    stale = {"metadata": {"resourceVersion": "1"}, "data": {"x": "1"}}
    with pytest.raises(Conflict, match="the object has been modified"):
        await client.patch(CONFIG_MAPS, "a", stale, ConfigMap, namespace=ns)
    assert (await client.get(CONFIG_MAPS, "a", ConfigMap, namespace=ns)) == a


async def test_an_expired_continue_token_is_gone(client: Client, space: Space) -> None:
    with pytest.raises((Gone, Invalid)):
        await client._transport.request(
            "GET", space.path, params={"limit": "1", "continue": "bm9uc2Vuc2U"}
        )


async def test_a_delete_strikes_only_the_object_that_was_meant(space: Space) -> None:
    client, ns = space.client, space.namespace
    old = await space.put("a")
    await space.delete(old)
    new = await space.put("a")
    with pytest.raises(Conflict):
        await space.delete(old)
    with pytest.raises(Conflict):
        await client.delete(
            CONFIG_MAPS,
            "a",
            uid=new.metadata.uid,
            version=old.metadata.resource_version,
            namespace=ns,
        )
    assert await names(space) == ["a"]


async def test_an_apply_with_a_uid_resurrects_nothing(space: Space) -> None:
    gone = await space.put("a")
    await space.delete(gone)
    body = config_map("a", x="1")
    body["metadata"]["uid"] = gone.metadata.uid
    with pytest.raises(Conflict, match="uid mismatch"):
        await space.client.apply(CONFIG_MAPS, "a", body, ConfigMap, namespace=space.namespace)


async def test_an_apply_that_changes_nothing_is_no_new_version(space: Space) -> None:
    first = await space.put("a", x="1")
    assert await space.put("a", x="1") == first


async def test_status_is_replaced_on_the_condition_of_its_version(space: Space) -> None:
    client = space.client
    read: dict[str, Any] = await client.get(NAMESPACES, space.namespace, dict)
    read["status"]["conditions"] = [
        {"type": "Tested", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ]
    ns = space.namespace
    wrote = await client.replace(NAMESPACES, ns, read, dict, subresource="status")
    assert wrote["status"]["conditions"][0]["type"] == "Tested"
    with pytest.raises(Conflict):
        await client.replace(NAMESPACES, ns, read, dict, subresource="status")


async def test_a_dry_run_keeps_nothing(space: Space) -> None:
    client, ns = space.client, space.namespace
    body = config_map("a")
    await client.create(CONFIG_MAPS, body, ConfigMap, namespace=ns, dry_run=True)
    await client.apply(CONFIG_MAPS, "a", body, ConfigMap, namespace=ns, dry_run=True)
    assert await names(space) == []
    with pytest.raises(Invalid):
        await client.create(CONFIG_MAPS, config_map("A_"), dict, namespace=ns, dry_run=True)


@pytest.mark.parametrize("action", ["lose_answer", "replace_answer"])
async def test_a_lost_answer_to_a_create_is_ambiguous_and_the_retry_finds_it(
    client: Client, space: Space, proxy: FaultProxy, action: Action
) -> None:
    ns = space.namespace
    proxy.inject(Rule(action, "create", space.path, status=504))
    with pytest.raises(Ambiguous):
        await client.create(CONFIG_MAPS, config_map("a"), ConfigMap, namespace=ns)
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("a"), ConfigMap, namespace=ns)


@pytest.mark.parametrize("action", ["lose_answer", "replace_answer", "drop"])
async def test_an_apply_is_repeated_after_a_lost_answer_and_makes_one_object(
    client: Client, space: Space, proxy: FaultProxy, action: Action
) -> None:
    lost = proxy.inject(Rule(action, "patch", space.path, status=500))
    with pytest.raises(Ambiguous):
        await client.apply(CONFIG_MAPS, "a", config_map("a"), ConfigMap, namespace=space.namespace)
    assert lost.fired == 1, "nothing repeats a write behind our back"
    applied = await client.apply(
        CONFIG_MAPS, "a", config_map("a"), ConfigMap, namespace=space.namespace
    )
    assert await names(space) == ["a"]
    assert (await space.put("a")).metadata.uid == applied.metadata.uid


async def test_a_lost_answer_to_a_dry_run_is_not_ambiguous(
    client: Client, space: Space, proxy: FaultProxy
) -> None:
    proxy.inject(Rule("lose_answer", "create", space.path))
    with pytest.raises(Retryable):
        await client.create(
            CONFIG_MAPS, config_map("a"), ConfigMap, namespace=space.namespace, dry_run=True
        )


async def test_a_lost_answer_to_a_read_is_retryable(
    client: Client, space: Space, proxy: FaultProxy
) -> None:
    # Twice, for the pool repeats a read by itself once when a kept connection breaks.
    proxy.inject(Rule("drop", "list", space.path, times=2))
    with pytest.raises(Retryable):
        await client.list_all(space.selection, ConfigMap)


@pytest.mark.parametrize(
    ("status", "expected"),
    [(401, Unauthorized), (403, Forbidden), (429, Retryable), (410, Gone), (503, Ambiguous)],
)
async def test_a_refused_write_says_so(
    client: Client, space: Space, proxy: FaultProxy, status: int, expected: type[KubeError]
) -> None:
    proxy.inject(Rule("reply", "create", status=status, times=2, retry_after=7))
    with pytest.raises(expected, match="injected") as refused:
        await client.create(CONFIG_MAPS, config_map("a"), ConfigMap, namespace=space.namespace)
    assert type(refused.value) is expected
    assert refused.value.retry_after_seconds == 7
    assert await names(space) == []


async def test_a_request_that_takes_too_long_is_given_up(
    client: Client, space: Space, proxy: FaultProxy
) -> None:
    held = proxy.inject(Rule("hold", "get|list", space.path))
    with pytest.raises(Retryable, match="got no answer"):
        await client._transport.request("GET", space.path, timeout_seconds=0.2)
    proxy.heal(held)
