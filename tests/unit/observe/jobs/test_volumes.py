"""What is known of claims, and how often it is asked for."""

from typing import Any

import pytest

from spotrun.api.names import Phase, SuspendedBy
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.kube.errors import Forbidden, KubeError, NotFound
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client
from spotrun.observe.jobs.volumes import (
    DOUBTED_SECONDS,
    KEPT_SECONDS,
    MOST_OF_A_JOB,
    Claims,
    Storage,
    Volumes,
    claims_of,
)
from spotrun.state.job_state import JobState
from tests.support.jobs.builders import ON_CLAIM, a_spec
from tests.unit.kube.scripted import ScriptedTransport

CLAIM, DATA = Key("ns", "checkpoints"), Key("ns", "data")
SHARED, MOUNTED = Claims((CLAIM,), CLAIM), Claims((CLAIM,))
ZONE = "topology.kubernetes.io/zone"


def affinity(*terms: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """A volume that is to be had where one of these terms holds."""
    written = [
        {"matchExpressions": [{"key": k, "operator": "In", "values": v} for k, v in term.items()]}
        for term in terms
    ]
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": written}}}


class Bench:
    """An API server with claims and volumes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[str] = []
        self.claims: dict[str, dict[str, Any] | KubeError] = {}
        self.volumes_there: dict[str, dict[str, Any] | KubeError] = {}
        client = Client(ScriptedTransport(self.answer), field_manager="test")
        self.volumes = Volumes(client, lambda: self.now)

    def has(self, claim: Key, *modes: str, volume: str = "", **spec: dict[str, Any]) -> "Bench":
        """With a claim, and the volume that it is bound to."""
        self.claims[claim.name] = {"accessModes": modes, "volumeName": volume}
        if volume:
            self.volumes_there[volume] = spec
        return self

    def answer(self, method: str, path: str, _: Any) -> Any:
        assert method == "GET"
        kind, name = path.split("/")[-2:]
        self.asked.append(f"{kind} {name}")
        there = self.claims if kind == "persistentvolumeclaims" else self.volumes_there
        found = there.get(name, NotFound("no"))
        if isinstance(found, KubeError):
            raise found
        return {"spec": found}


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        (("ReadWriteMany",), True),
        (("ReadWriteOnce", "ReadWriteMany"), True),
        (("ReadWriteOnce",), False),
        (("ReadWriteOncePod",), False),
        (("ReadOnlyMany",), False),
        ((), False),
    ],
)
async def test_only_a_claim_that_many_may_write_is_shared(
    bench: Bench, modes: tuple[str, ...], expected: bool
) -> None:
    bench.has(CLAIM, *modes)
    assert await bench.volumes.look(SHARED) == Storage(expected)
    assert bench.asked == ["persistentvolumeclaims checkpoints"]
    assert await bench.volumes.look(MOUNTED) == Storage(None)


@pytest.mark.parametrize(
    ("spec", "zones"),
    [
        (affinity({ZONE: ("a",)}), {"a"}),
        (affinity({ZONE: ("a", "b")}), {"a", "b"}),
        (affinity({ZONE: ("a",)}, {ZONE: ("b",)}), {"a", "b"}),
        (affinity({"topology.ebs.csi.aws.com/zone": ("a",)}), {"a"}),
        (affinity({ZONE: ("a", "b"), "topology.gke.io/zone": ("b", "c")}), {"b"}),
        (affinity({ZONE: ("a",), "kubernetes.io/hostname": ("n",)}), {"a"}),
        (affinity({ZONE: ("a",)}, {"kubernetes.io/hostname": ("n",)}), None),
        (affinity({"kubernetes.io/hostname": ("n",)}), None),
        ({}, None),
    ],
)
async def test_a_volume_says_in_which_zones_it_can_be_mounted(
    bench: Bench, spec: dict[str, Any], zones: set[str] | None
) -> None:
    bench.has(CLAIM, "ReadWriteOnce", volume="pv", **spec)
    expected = frozenset(zones) if zones is not None else None
    assert await bench.volumes.look(MOUNTED) == Storage(None, expected)


async def test_several_volumes_can_only_be_mounted_where_all_can(bench: Bench) -> None:
    bench.has(CLAIM, volume="pv-1", **affinity({ZONE: ("a", "b")}))
    bench.has(DATA, volume="pv-2", **affinity({ZONE: ("b", "c")}))
    bench.has(Key("ns", "anywhere"), volume="pv-3")
    claims = Claims((CLAIM, DATA, Key("ns", "anywhere"), Key("ns", "missing")))
    assert await bench.volumes.look(claims) == Storage(None, frozenset({"b"}))


@pytest.mark.parametrize(
    ("claims", "modes", "volume", "kept"),
    [
        pytest.param(SHARED, ("ReadWriteMany",), "pv", KEPT_SECONDS, id="as it should be"),
        pytest.param(SHARED, ("ReadWriteOnce",), "pv", DOUBTED_SECONDS, id="not shared"),
        pytest.param(MOUNTED, ("ReadWriteOnce",), "pv", KEPT_SECONDS, id="need not be shared"),
        pytest.param(MOUNTED, ("ReadWriteOnce",), "", DOUBTED_SECONDS, id="not bound yet"),
    ],
)
async def test_it_is_asked_again_after_a_while(
    bench: Bench, claims: Claims, modes: tuple[str, ...], volume: str, kept: float
) -> None:
    bench.has(CLAIM, *modes, volume=volume)
    await bench.volumes.look(claims)
    before = list(bench.asked)
    bench.now = kept - 1
    await bench.volumes.look(claims)
    assert bench.asked == before
    bench.now = kept
    await bench.volumes.look(claims)
    assert bench.asked == before * 2


async def test_only_for_a_claim_that_will_not_do_a_job_is_looked_at_again(bench: Bench) -> None:
    bench.has(CLAIM, "ReadWriteOnce", volume="pv")
    await bench.volumes.look(SHARED)
    assert bench.volumes.wake_after_seconds(SHARED) == DOUBTED_SECONDS
    assert bench.volumes.wake_after_seconds(MOUNTED) == float("inf")
    bench.now = DOUBTED_SECONDS
    await bench.has(CLAIM, "ReadWriteMany", volume="pv").volumes.look(SHARED)
    assert bench.volumes.wake_after_seconds(SHARED) == float("inf")


@pytest.mark.parametrize("error", [NotFound("no"), Forbidden("no")])
async def test_of_a_claim_that_cannot_be_read_nothing_is_said(
    bench: Bench, error: KubeError
) -> None:
    bench.claims[CLAIM.name] = error
    assert await bench.volumes.look(SHARED) == Storage()
    assert bench.volumes.wake_after_seconds(SHARED) == DOUBTED_SECONDS


async def test_of_a_volume_that_cannot_be_read_no_zone_is_known(bench: Bench) -> None:
    bench.has(CLAIM, "ReadWriteMany", volume="pv")
    bench.volumes_there["pv"] = Forbidden("no")
    assert await bench.volumes.look(SHARED) == Storage(True)


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spotrun.observe.jobs.volumes.MOST_CLAIMS", 3)
    bench = Bench()
    for number in range(5):
        await bench.volumes.look(Claims((Key("ns", f"c{number}"),)))
    await bench.volumes.look(Claims((Key("ns", "c4"),)))
    assert len(bench.asked) == 5
    await bench.volumes.look(Claims((Key("ns", "c0"),)))
    assert len(bench.asked) == 6


def a_template(*volumes: Any) -> dict[str, Any]:
    trainer = {"name": "trainer", "image": "your-registry/train:1"}
    return {"spec": {"containers": [trainer], "volumes": list(volumes)}}


def on_claim(name: Any) -> dict[str, Any]:
    return {"name": "v", "persistentVolumeClaim": {"claimName": name}}


def found(spec: TrainingJobSpec, **status: Any) -> Claims:
    return claims_of(spec, JobState(**status), "ns")


def test_the_claims_of_a_job_are_its_checkpoints_and_its_templates() -> None:
    template = a_template(
        on_claim("data"), on_claim("checkpoints"), {"name": "tmp", "emptyDir": {}}
    )
    several = a_spec(2, checkpoint=ON_CLAIM, template=template)
    assert found(several) == Claims((CLAIM, DATA), CLAIM)
    assert found(a_spec(1, checkpoint=ON_CLAIM)) == Claims((CLAIM,))
    assert found(a_spec(2)) == Claims()


def test_who_wants_no_workers_asks_for_nothing() -> None:
    assert found(a_spec(2, checkpoint=ON_CLAIM, suspend=True)) == Claims()
    assert found(a_spec(2, checkpoint=ON_CLAIM), phase=Phase.FAILED) == Claims()


@pytest.mark.parametrize("by", SuspendedBy)
def test_who_may_go_on_in_this_look_asks(by: SuspendedBy) -> None:
    assert found(a_spec(2, checkpoint=ON_CLAIM), suspended_by=(by,)) == Claims((CLAIM,), CLAIM)


def test_of_a_template_that_nobody_has_checked_nothing_is_believed() -> None:
    template = a_template(on_claim(7), on_claim(""), {"persistentVolumeClaim": None}, "no volume")
    assert found(a_spec(2, template=template)) == Claims()
    many = a_template(*(on_claim(f"c{number}") for number in range(100)))
    assert len(found(a_spec(2, template=many)).mounted) == MOST_OF_A_JOB
