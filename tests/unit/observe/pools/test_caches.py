"""Who is woken by what is learned of pools."""

from datetime import UTC, datetime
from typing import Any, cast
from unittest.mock import Mock

import msgspec
import pytest

from spotrun.kube.rest.client import Client
from spotrun.money.price_sources import Catalog
from spotrun.observe.kube_objects import EventObject, PodObject, PoolObject
from spotrun.observe.pools.caches import Listeners, PoolCaches

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SPEC = {"capacity": "Spot", "instanceTypes": ["g5.xlarge"]}


class Scene:
    """Caches that are filled by hand, and who was woken."""

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.pools: list[str] = []
        self.changes: list[tuple[PoolObject | None, PoolObject | None]] = []
        self.caches = PoolCaches(
            cast("Client", Mock()),
            namespace=None,
            nodes=lambda _: None,
            pods_on=lambda _: (),
            job_of=lambda _: None,
            catalog=Catalog,
            listeners=Listeners(
                object=lambda *change: self.changes.append(change),
                pool=self.pools.append,
                node=lambda _: None,
                pod=lambda pod: self.woken.append(pod.metadata.name),
                market=lambda: None,
            ),
            wall=lambda: NOW,
        )

    def waits(self, name: str, pools: str) -> None:
        meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "1"}
        meta["creationTimestamp"] = NOW.isoformat()
        content = {"metadata": {**meta, "annotations": {"spotrun.dev/pools": pools}}}
        self.caches.pools.pod_changed(None, msgspec.convert(content, PodObject))
        self.pools.clear()

    def pool(self, name: str, version: int, **status: Any) -> None:
        meta = {"name": name, "uid": "p", "resourceVersion": str(version), "generation": 2}
        text = msgspec.json.encode({"metadata": meta, "spec": SPEC, "status": status})
        objects = self.caches.objects
        objects._tell(objects.store.put(msgspec.json.decode(text, type=PoolObject)))

    def event(self, uid: str) -> None:
        content = {
            "metadata": {"name": "e", "namespace": "ns", "uid": "e", "resourceVersion": "1"},
            "regarding": {"kind": "Pod", "namespace": "ns", "name": "w0", "uid": uid},
            "reason": "FailedScheduling",
            "deprecatedLastTimestamp": NOW.isoformat(),
        }
        reflector = self.caches.reflectors["karpenter events"]
        reflector._tell(reflector.store.put(msgspec.convert(content, EventObject)))


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    for version, name in enumerate(("a", "b"), start=1):
        made.pool(name, version, asOf=NOW.isoformat())
    made.waits("w0", "a,b")
    made.waits("w1", "b")
    return made


def test_words_about_a_worker_wake_its_job_and_the_pools_that_it_waits_for(scene: Scene) -> None:
    scene.event("uid-w0")
    assert (scene.woken, scene.pools) == (["w0"], ["a", "b"])


def test_words_about_another_pod_of_its_name_wake_nobody(scene: Scene) -> None:
    scene.event("uid-of-a-former-one")
    assert (scene.woken, scene.pools) == ([], [])


def test_a_pool_that_turns_out_to_be_dry_wakes_who_waits_for_it(scene: Scene) -> None:
    scene.pool("a", 7, asOf=NOW.isoformat(), available="False", retryAt="2026-03-02T12:10:00Z")
    assert scene.woken == ["w0"]
    scene.pool("a", 8, asOf=NOW.isoformat(), available="False", retryAt="2026-03-02T12:10:00Z")
    assert scene.woken == ["w0"], "that is no news"
    scene.pool("a", 9, asOf=NOW.isoformat(), available="True")
    assert scene.woken == ["w0", "w0"]
