"""The objects that tests would leave to each other in a shared cluster, and their removal."""

import http.client
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from devcluster.client import at
from devcluster.cluster import Cluster
from tests.integration.asking import Answer, ask, connect
from tests.support.cluster.operator_world import GROUP

_PATIENCE_SECONDS = 60
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_NAMESPACES = at("namespaces")
_OF_NO_FIXTURE = "default"
_VISIBLE = {
    "spendlimits": GROUP,
    "tuningjobs": GROUP,
    "trainingjobs": GROUP,
    "pods": "v1",
    "nodes": "v1",
    "capacitypools": GROUP,
}
"""The kinds that operators and schedulers see in every namespace, in the order in which they are
removed."""


class _Thing(NamedTuple):
    path: str
    namespace: str | None
    name: str
    uid: str
    is_held: bool  # by a finalizer, whose keeper is gone


@contextmanager
def swept(cluster: Cluster) -> Iterator[None]:
    """Remove what has come into the cluster during the block, as far as others would see it.

    Jobs stand before those of the next test in line; pods that wait are bound to its nodes, and
    pods of nodes that are gone fill the next ones of the same name. What lies in a namespace that
    was there before belongs to a fixture that lives longer, unless no fixture makes the namespace.

    Namespaces stay: one that is empty is nobody's matter, and one that is on its way out could not
    be made anew by the next test that needs one of the same name.
    """
    with closing(connect(cluster)) as connection:
        before = {thing.uid for thing in _all_visible(connection)}
        lasting = {thing.name for thing in _list(connection, _NAMESPACES)} - {_OF_NO_FIXTURE}
    yield
    with closing(connect(cluster)) as connection:
        for thing in _all_visible(connection):
            if thing.uid not in before and thing.namespace not in lasting:
                _remove(connection, thing)


def _all_visible(connection: http.client.HTTPSConnection) -> list[_Thing]:
    collections = (at(plural, group=group) for plural, group in _VISIBLE.items())
    return [thing for path in collections for thing in _list(connection, path)]


def _list(connection: http.client.HTTPSConnection, collection: str) -> list[_Thing]:
    end = time.monotonic() + _PATIENCE_SECONDS
    while (answer := ask(connection, "GET", collection, Accept=_METADATA)).status == 429:
        # For a moment after its start, or after that of a kind, it has yet to read its storage.
        assert time.monotonic() < end, answer.message
        time.sleep(0.1)
    if answer.status == 404:  # the cluster does not know spotrun's kinds yet
        return []
    assert answer.accepted, answer.message
    return [_thing(collection, item["metadata"]) for item in answer.body["items"] or ()]


def _thing(collection: str, meta: dict[str, Any]) -> _Thing:
    root, _, plural = collection.rpartition("/")
    namespace, name = meta.get("namespace"), meta["name"]
    place = f"{root}/namespaces/{namespace}" if namespace else root
    return _Thing(f"{place}/{plural}/{name}", namespace, name, meta["uid"], "finalizers" in meta)


def _remove(connection: http.client.HTTPSConnection, thing: _Thing) -> None:
    if thing.is_held:
        release = {"metadata": {"uid": thing.uid, "finalizers": None}}
        _assert_done(ask(connection, "PATCH", thing.path, release, kind="merge-patch+json"))
    options = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": thing.uid},
    }
    _assert_done(ask(connection, "DELETE", thing.path, options))


def _assert_done(answer: Answer) -> None:
    """Check that it was done, or that the thing was gone, perhaps with another one in its place."""
    assert answer.status in {200, 202, 404, 409}, answer.message
