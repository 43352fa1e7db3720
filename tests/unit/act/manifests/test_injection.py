"""The package that an init container brings into workers of any image."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from spotrun.act.manifests.worker_pod import worker_pod
from spotrun.act.manifests.worker_settings import Settings
from spotrun.observe.kube_objects import PodObject
from spotrun.observe.resources import requests_of
from spotrun.state.actions import Create
from spotrun.state.job_state import World
from spotrun.state.snapshot import JobSnapshot, PodEnd, PodPhase
from tests.support.jobs.builders import a_worker
from tests.unit.act.manifests.test_worker_pod import SETTINGS, TRAINER, a_job_of

OURS = "your-registry/spotrun-operator:1"
INJECTING = replace(SETTINGS, inject_image=OURS, trainer_image="your-registry/spotrun-trainer:1")
GUARANTEED = {
    "limits": {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": "1"},
    "requests": {"cpu": "2", "memory": "8Gi"},
}


def spec_of(
    pod_spec: dict[str, Any] | None = None, settings: Settings = INJECTING, **workers: Any
) -> Any:
    return pod_of(a_job_of(pod_spec, workers=workers), settings)["spec"]


def pod_of(job: JobSnapshot, settings: Settings = INJECTING) -> Any:
    return worker_pod(job, Create(3), settings)


def the_rest(spec: Any) -> Any:
    """A pod without what injection adds."""
    trainer = spec["containers"][0]
    return {
        **spec,
        "containers": [
            {
                **trainer,
                "command": ["torchrun", *trainer["command"][2:]],
                "volumeMounts": trainer["volumeMounts"][:-1],
            },
            *spec["containers"][1:],
        ],
        "volumes": spec["volumes"][:-1],
        "initContainers": spec["initContainers"][1:],
    }


def test_an_init_container_brings_the_package_and_the_launcher_runs_torchrun() -> None:
    spec = spec_of()
    assert spec["initContainers"] == [
        {
            "name": "spotrun-inject",
            "image": OURS,
            "command": [
                "python3",
                "-m",
                "spotrun_trainer.agent.launch.bring",
                "/opt/spotrun-package",
            ],
            "resources": {},
            "volumeMounts": [{"name": "spotrun-package", "mountPath": "/opt/spotrun-package"}],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": {
                "runAsNonRoot": True,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
                "allowPrivilegeEscalation": False,
            },
        }
    ]
    assert spec["volumes"][-1] == {"name": "spotrun-package", "emptyDir": {"sizeLimit": "64Mi"}}
    trainer = spec["containers"][0]
    assert trainer["volumeMounts"][-1] == {
        "name": "spotrun-package",
        "mountPath": "/opt/spotrun-package",
        "readOnly": True,
    }
    assert trainer["command"][:3] == [
        "/bin/sh",
        "/opt/spotrun-package/spotrun_trainer/agent/launch/start.sh",
        "--rdzv-backend=spotrun",
    ]


def test_all_else_is_as_without() -> None:
    pod_spec = {
        "containers": [{**TRAINER, "resources": GUARANTEED}, {"name": "side", "image": "side:1"}],
        "initContainers": [{"name": "own", "image": "own:1"}],
        "volumes": [{"name": "own", "emptyDir": {}}],
    }
    assert the_rest(spec_of(pod_spec)) == spec_of(pod_spec, SETTINGS)


@pytest.mark.parametrize(
    ("image", "settings", "workers", "expected"),
    [
        ("any:1", INJECTING, {}, True),
        ("any:1", INJECTING, {"inject": "Auto"}, True),
        ("any:1", INJECTING, {"inject": "Never"}, False),
        ("any:1", SETTINGS, {}, False),
        ("your-registry/spotrun-trainer:1", INJECTING, {}, False),
        # Another version of ours may be older than the operator: what is brought is not.
        ("your-registry/spotrun-trainer:2", INJECTING, {}, True),
        ("any:1", replace(INJECTING, trainer_image=""), {}, True),
    ],
)
def test_it_is_brought_unless_the_image_has_it(
    image: str, settings: Settings, workers: dict[str, Any], expected: bool
) -> None:
    containers = [{"name": "trainer", "image": image}, {"name": "side", "image": "side:1"}]
    spec = spec_of({"containers": containers}, settings, **workers)
    assert ("initContainers" in spec) is expected
    assert (spec["containers"][0]["command"][0] == "torchrun") is not expected


OLD = "your-registry/spotrun-operator:0"


def having(injected: str, **pod: Any) -> dict[str, Any]:
    return {"injected": injected, **pod}


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ({}, OURS),
        ({0: having(OLD)}, OLD),
        ({0: having("")}, ""),
        ({0: having(OLD, phase=PodPhase.PENDING)}, OLD),
        # Of workers of two versions, those of the world count, in the order of their ranks.
        ({0: having(OURS), 1: having("")}, ""),
        ({0: having(OLD), 1: having(OURS, template="before")}, OLD),
        # Nobody of these trains with a new one.
        ({0: having(OLD, template="before")}, OURS),
        ({0: having(OLD, deleting=True)}, OURS),
        ({0: having(OLD, phase=PodPhase.FAILED)}, OURS),
        ({0: having(OLD, end=PodEnd(1))}, OURS),
        ({0: having(OLD, stuck="ImagePullBackOff")}, OURS),
        ({1: having(OLD, stuck="CrashLoopBackOff")}, OLD),
    ],
)
def test_workers_that_train_together_have_the_package_from_one_image(
    workers: dict[int, dict[str, Any]], expected: str
) -> None:
    job = a_job_of()
    members = tuple(a_worker(n, **{"template": job.template, **pod}) for n, pod in workers.items())
    world = World(number=1, members=(1,), is_active=True)
    status = replace(job.status, world=world)
    made = pod_of(replace(job, workers=members, status=status))
    assert made["metadata"]["annotations"]["spotrun.dev/injected"] == expected
    images = [one["image"] for one in made["spec"].get("initContainers", ())]
    assert images == ([expected] if expected else [])


def test_a_job_that_no_longer_wants_it_gets_it_while_workers_with_it_live() -> None:
    job = a_job_of(workers={"inject": "Never"})
    members = (a_worker(0, template=job.template, injected=OLD),)
    (container,) = pod_of(replace(job, workers=members))["spec"]["initContainers"]
    assert container["image"] == OLD
    assert "initContainers" not in pod_of(job)["spec"]


def test_it_never_gets_the_token_of_the_pods_account() -> None:
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    (container,) = spec_of({"automountServiceAccountToken": True})["initContainers"]
    hidden = {"name": "spotrun-package", "mountPath": account, "readOnly": True}
    assert hidden in container["volumeMounts"], "Kubernetes mounts nothing over what is mounted"


@pytest.mark.parametrize("resources", [{}, GUARANTEED, {"requests": {"cpu": "100m"}}])
def test_the_pod_asks_for_no_more_and_keeps_its_class(resources: dict[str, Any]) -> None:
    job = a_job_of({"containers": [{**TRAINER, "resources": resources}]})
    made, plain = pod_of(job), pod_of(job, SETTINGS)
    assert requests_of(msgspec.convert(made, PodObject)) == requests_of(
        msgspec.convert(plain, PodObject)
    )
    kept = {
        kind: {name: amount for name, amount in amounts.items() if "/" not in name}
        for kind, amounts in resources.items()
    }
    assert made["spec"]["initContainers"][0]["resources"] == kept, "Guaranteed needs them equal"


def test_it_never_runs_as_root() -> None:
    as_root = spec_of({"securityContext": {"runAsUser": 0}})
    assert as_root["initContainers"][0]["securityContext"]["runAsUser"] == 65532
    as_somebody = spec_of({"securityContext": {"runAsUser": 1000}})
    assert "runAsUser" not in as_somebody["initContainers"][0]["securityContext"]


def test_a_restricted_namespace_takes_it() -> None:
    spec = spec_of(settings=replace(INJECTING, restricted=True))
    (container,) = spec["initContainers"]
    assert container["securityContext"] == {
        "runAsNonRoot": True,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
