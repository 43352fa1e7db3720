"""What is done about pods whose job is no more, however often they are looked at."""

from typing import Any

import msgspec
import pytest
from typing_extensions import override

from spotrun.act.executor import Executor
from spotrun.act.manifests.worker_settings import Settings
from spotrun.agents.long_poll import Board
from spotrun.api.names import ANNOTATION_DEVICES, FINALIZER_METERED, LABEL_JOB, LABEL_JOB_UID
from spotrun.kube.errors import Ambiguous, Forbidden, NotFound
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Client
from spotrun.kube.watch.kopf_feed import Feed
from spotrun.kube.workqueue.queue import WorkQueue
from spotrun.metrics.deleted_jobs import DeletedJobs
from spotrun.observe.caches import Caches
from spotrun.observe.kube_objects import FED, JobObject, PodObject
from spotrun.runtime.reconciler import Reconciler
from spotrun.state.actions import Action, Create
from spotrun.state.names import worker_name
from spotrun.state.snapshot import JobSnapshot
from tests.support.jobs.builders import NOW, a_spec
from tests.unit.kube.scripted import ScriptedTransport, written

JOB = Key("ns", "job")


class Cluster:
    """Pods that a deleted job has left; nothing tells the caches of what is written."""

    def __init__(self, *pods: str, owner: str | None = "gone") -> None:
        self._owner = owner
        self.refused: set[str] = set()
        self.released: list[str] = []
        self.left: list[Key] = []
        self.deleted_jobs = DeletedJobs(self._clock)
        client = Client(ScriptedTransport(self._answer), field_manager="test")
        self.caches = Caches(
            client,
            namespace=None,
            wake=lambda _: None,
            feed=Feed(FED),
            clock=self._clock,
            wall=lambda: NOW,
        )
        for version, name in enumerate(pods, start=5):
            self._store(self._pod(name, str(version), FINALIZER_METERED))

    def reconciler(self) -> Reconciler:
        client = Client(ScriptedTransport(self._answer), field_manager="test")
        horizon: Horizon[Key, Resource] = Horizon(self.caches, self._clock)
        executor = Executor(
            client,
            horizon,
            lambda: Settings(server="sync:9443", ca_pem="PEM"),
            lambda *_: None,
            leads=lambda: True,
            clock=self._clock,
            wall=lambda: NOW,
            roll=lambda: 0.0,
        )
        return Reconciler(
            client,
            self.caches,
            Board(b"key"),
            executor,
            self.deleted_jobs,
            queue=WorkQueue(),
            horizon=horizon,
            clock=self._clock,
            roll=lambda: 0.0,
            wall=lambda: NOW,
            orphaned=self.left.append,
        )

    def show(self, name: str) -> None:
        """The watch tells of what was written to a pod."""
        self._store(self._pod(name, "9"))

    def _store(self, pod: dict[str, Any]) -> None:
        cache = self.caches.jobs.reflectors["pods"]
        cache.store.put(msgspec.convert(pod, PodObject))
        cache.last_version = int(pod["metadata"]["resourceVersion"])

    def _answer(self, method: str, path: str, _: Any) -> Any:
        name = path.rpartition("/")[2]
        if method == "PATCH" and name in self.refused:
            raise Forbidden(f"a policy guards {name}")
        if method == "PATCH":
            self.released.append(name)
            return self._pod(name, "9")
        raise NotFound("there is no such job")

    def _pod(self, name: str, version: str, *finalizers: str) -> dict[str, Any]:
        meta = {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "labels": {str(LABEL_JOB): "job", str(LABEL_JOB_UID): "gone"},
            "finalizers": list(finalizers),
            "ownerReferences": [{"uid": self._owner, "controller": True}] if self._owner else [],
        }
        return {"metadata": meta}

    def _clock(self) -> float:
        return 100.0


async def test_pods_of_a_job_that_is_gone_are_let_go_of_once() -> None:
    cluster = Cluster("a", "b")
    reconciler = cluster.reconciler()
    assert reconciler.unseen_seconds(JOB) == 0.0

    await reconciler.let_go_of_orphans(JOB)

    assert cluster.released == ["a", "b"]
    cluster.show("a")
    assert reconciler.unseen_seconds(JOB) > 0.0, "b still looks as if it waited for us"
    cluster.show("b")
    assert reconciler.unseen_seconds(JOB) == 0.0
    await reconciler.let_go_of_orphans(JOB)
    assert cluster.released == ["a", "b"]


async def test_pods_that_were_orphaned_on_purpose_are_let_go_of_as_well() -> None:
    cluster = Cluster("a", owner=None)
    await cluster.reconciler().let_go_of_orphans(JOB)
    assert cluster.released == ["a"]


async def test_one_that_cannot_be_let_go_of_is_in_no_others_way() -> None:
    cluster = Cluster("a", "b", "c")
    cluster.refused = {"a"}
    with pytest.raises(Forbidden, match="guards a"):
        await cluster.reconciler().let_go_of_orphans(JOB)
    assert cluster.released == ["b", "c"]


class Promised:
    """The workers that a decision keeps room for."""

    def __init__(self) -> None:
        self.worker_ids: list[int] = []
        self.most: list[int] = []

    def make(self, _: JobSnapshot, actions: tuple[Action, ...]) -> None:
        self.worker_ids = [one.worker_id for one in actions if isinstance(one, Create)]
        self.most = max(self.most, self.worker_ids)

    def take_back(self, _: Key) -> None:
        self.worker_ids = []


@pytest.mark.parametrize(
    ("failing", "held"),
    [
        pytest.param("", [0, 1], id="they are made"),
        pytest.param("status", [], id="its status cannot be stored"),
        pytest.param("pods", [], id="they cannot be made"),
    ],
)
async def test_room_is_kept_for_no_workers_that_wait_for_a_pause(
    monkeypatch: pytest.MonkeyPatch, failing: str, held: list[int]
) -> None:
    def answer(method: str, path: str, body: Any) -> Any:
        if method in {"POST", "PATCH"} and path.partition("?")[0].endswith(f"/{failing}"):
            raise Ambiguous("the webhook is down", status=500)
        return written(path, body)

    cluster, promised = Cluster(), Promised()
    monkeypatch.setattr(cluster, "_answer", answer)
    monkeypatch.setattr(cluster.caches.pools, "promises", promised)
    meta = {"name": "job", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 1}
    job = {"metadata": {**meta, "creationTimestamp": f"{NOW:%Y-%m-%dT%H:%M:%SZ}"}}
    job |= {"spec": a_spec(2).manifest()}
    cluster.caches.jobs.objects.store.put(
        msgspec.json.decode(msgspec.json.encode(job), type=JobObject)
    )

    await cluster.reconciler().reconcile(JOB, 0.0)

    assert promised.most == [0, 1]
    assert promised.worker_ids == held


class Claiming(Cluster):
    """A job whose workers claim devices (DRA), and a template of claims that may be replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 4
        self.made_with: dict[str, str] = {}  # by the job's UID

    def make(self, uid: str, **status: Any) -> None:
        """A job of that name is there."""
        meta = {"name": "job", "namespace": "ns", "uid": uid, "resourceVersion": "1"}
        named = {**meta, "creationTimestamp": _MOMENT, "generation": 1}
        given = {"claims": [{"name": "gpus"}]}
        trainer = {"name": "trainer", "image": "your-registry/train:1", "resources": given}
        claim = {"name": "gpus", "resourceClaimTemplateName": "gpus"}
        template = {"spec": {"containers": [trainer], "resourceClaims": [claim]}}
        spec = a_spec(1, template=template).manifest()
        job = {"metadata": named, "spec": spec, "status": status}
        read = msgspec.json.decode(msgspec.json.encode(job), type=JobObject)
        self.caches.jobs.objects.store.put(read, even_older=True)

    @override
    def _answer(self, method: str, path: str, body: Any) -> Any:
        if method == "GET" and path.endswith("/resourceclaimtemplates/gpus"):
            exactly = {"deviceClassName": "gpu.nvidia.com", "count": self.count}
            requests = [{"name": "gpu", "exactly": exactly}]
            return {"spec": {"spec": {"devices": {"requests": requests}}}}
        if method == "POST" and path.partition("?")[0].endswith("/pods"):
            meta = body["metadata"]
            self.made_with[meta["labels"][LABEL_JOB_UID]] = meta["annotations"][ANNOTATION_DEVICES]
        return written(path, body)


@pytest.mark.parametrize("by", ["User", "Schedule"])
async def test_a_job_that_goes_on_makes_its_workers_with_the_devices_they_claim(by: str) -> None:
    cluster = Claiming()
    cluster.make("u", suspendedBy=[by], phase="Suspended")
    await cluster.reconciler().reconcile(JOB, 0.0)
    assert cluster.made_with == {"u": "4"}


async def test_a_job_that_was_made_again_has_the_devices_of_claims_made_again() -> None:
    cluster = Claiming()
    cluster.make("former")
    reconciler = cluster.reconciler()
    await reconciler.reconcile(JOB, 0.0)
    cluster.count = 8
    cluster.make("later")
    await reconciler.reconcile(JOB, 0.0)
    assert cluster.made_with == {"former": "4", "later": "8"}


_MOMENT = f"{NOW:%Y-%m-%dT%H:%M:%SZ}"
HIDDEN = worker_name("job", "former", 0)


class Namesakes(Cluster):
    """A job that costs something is deleted and made again between two looks.

    Somebody has taken the labels off the pod of its only worker, and keeps us from it at first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.num_stored = 0
        self.notes: list[str] = []
        self.is_guarded = True

    def make(self, uid: str, **status: Any) -> None:
        """A job of that name is there."""
        meta = {"name": "job", "namespace": "ns", "uid": uid, "resourceVersion": "1"}
        named = {**meta, "creationTimestamp": _MOMENT, "generation": 1}
        job = {"metadata": named, "spec": a_spec(1).manifest(), "status": status}
        read = msgspec.json.decode(msgspec.json.encode(job), type=JobObject)
        self.caches.jobs.objects.store.put(read, even_older=True)

    @override
    def _answer(self, method: str, path: str, body: Any) -> Any:
        name = path.partition("?")[0].rpartition("/")[2]
        if method == "POST" and name == "events":
            self.notes.append(body["note"])
        if path.partition("?")[0].endswith("/status"):
            self.num_stored += 1
        if name != HIDDEN:
            return written(path, body)
        if self.is_guarded:
            raise Forbidden(f"a policy guards {name}")
        if method == "PATCH":
            self.released.append(name)
        pod = self._pod(HIDDEN, "9", FINALIZER_METERED)
        pod["metadata"]["ownerReferences"] = [{"uid": "former", "controller": True}]
        return pod


@pytest.mark.parametrize("is_made_again", [True, False])
async def test_a_job_that_has_gone_is_finished_though_another_has_its_name(
    is_made_again: bool,
) -> None:
    cluster = Namesakes()
    cost = {"usd": "2.5", "usdPerHour": "1", "asOf": _MOMENT}
    rates = [{"workers": "0", "usdPerHour": "1"}]
    cluster.make("former", nextWorkerId=1, cost=cost, accumulators={"rates": rates})
    reconciler = cluster.reconciler()
    await reconciler.reconcile(JOB, 0.0)

    cluster.is_guarded = False
    cluster.caches.jobs.objects.store.remove(JOB)
    if is_made_again:
        cluster.make("later")
    await reconciler.reconcile(JOB, 0.0)

    assert cluster.released == [HIDDEN]
    told = ["the job was deleted: it had cost $2.50 until then, $1.00/h at last"]
    assert [note for note in cluster.notes if "deleted" in note] == told
    [kept] = cluster.deleted_jobs.instead_of([]).values()
    assert kept.uid == "former"
    await reconciler.reconcile(JOB, 0.0)
    assert [note for note in cluster.notes if "deleted" in note] == told


async def test_a_job_does_not_wait_for_what_a_former_one_of_its_name_has_left() -> None:
    cluster = Namesakes()
    cost = {"usd": "2.5", "usdPerHour": "1", "asOf": _MOMENT}
    rates = [{"workers": "0", "usdPerHour": "1"}]
    cluster.make("former", nextWorkerId=1, cost=cost, accumulators={"rates": rates})
    reconciler = cluster.reconciler()
    await reconciler.reconcile(JOB, 0.0)

    cluster.make("later")
    cluster.num_stored = 0
    await reconciler.reconcile(JOB, 0.0)

    assert cluster.num_stored == 1
    assert [note for note in cluster.notes if "deleted" in note]
    assert cluster.left == [JOB]
    with pytest.raises(Forbidden, match="guards"):
        await reconciler.let_go_of_orphans(JOB)
    cluster.is_guarded = False
    await reconciler.let_go_of_orphans(JOB)
    await reconciler.let_go_of_orphans(JOB)
    assert cluster.released == [HIDDEN]
