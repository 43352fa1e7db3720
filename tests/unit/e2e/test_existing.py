"""What is asked and said before the end-to-end tests write to a cluster that is not theirs."""

import io
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typing_extensions import override

from charts.helm import HelmError
from tests.e2e.existing import cluster, settings
from tests.e2e.existing.cluster import Existing, agree_on_existing
from tests.e2e.existing.consent import require_consent
from tests.e2e.existing.preflight import Facts, Selection, after_keep, objection, plan
from tests.e2e.existing.settings import Settings
from tests.e2e.installation import image_values
from tests.e2e.kind.machine import SetupError

CHOSEN = {
    "OPERATOR_IMAGE": "registry/operator:1",
    "TRAINER_IMAGE": "registry/trainer:1",
    "STORAGE_CLASS": "nfs",
}
SETTINGS = Settings("registry/operator:1", "registry/trainer:1", "nfs", keep=False, yes=False)
EMPTY = Facts(
    "team", "https://10.0.0.1", "v1.37.0", (), (), False, {"nfs": "Delete", "ssd": "Delete"}
)
SELECTION = Selection(7, {"it takes a node": ("test_a", "test_b")})


def test_settings_that_are_missing_are_named_all_at_once() -> None:
    with pytest.raises(SetupError, match="also needs OPERATOR_IMAGE and STORAGE_CLASS: make e2e"):
        settings.read({"TRAINER_IMAGE": "registry/trainer:1", "STORAGE_CLASS": ""})


def test_settings_are_read_as_make_passes_them() -> None:
    assert settings.read({**CHOSEN, "KEEP": "", "YES": "1"}) == replace(SETTINGS, yes=True)


def test_an_empty_cluster_with_the_storage_class_is_fit() -> None:
    assert objection(EMPTY, SETTINGS) is None


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"operators": ("ml/spotrun",)}, "spotrun is installed on team as ml/spotrun, and two"),
        ({"definitions": ("trainingjobs.spotrun.dev",)}, "has the CRDs trainingjobs.spotrun.dev,"),
        ({"has_system_namespace": True}, "has a namespace spotrun-system, which the tests would"),
        ({"reclaim_policies": {"a": "Delete", "b": "Delete"}}, "class nfs: .* There are: a, b$"),
        ({"reclaim_policies": {}}, "There are: none$"),
        ({"reclaim_policies": {"nfs": "Retain"}}, r"keeps its volumes \(reclaimPolicy Retain\)"),
    ],
    ids=["an operator", "CRDs", "a namespace", "another class", "no class", "volumes that stay"],
)
def test_a_cluster_is_refused_for(found: dict[str, object], words: str) -> None:
    said = objection(replace(EMPTY, **found), SETTINGS)  # type: ignore[arg-type]

    with pytest.raises(SetupError, match=words):
        raise SetupError(said)


def test_what_keep_left_can_be_removed_as_the_refusal_of_the_next_run_tells() -> None:
    refused = objection(replace(EMPTY, operators=("spotrun-system/spotrun",)), SETTINGS)

    for command in after_keep().splitlines()[1:]:
        assert command.strip() in str(refused)


def test_the_plan_says_where_what_and_what_not() -> None:
    assert plan(EMPTY, SETTINGS, SELECTION) == (
        """\
on a cluster that is there already:
    context  team
    server   https://10.0.0.1 (Kubernetes v1.37.0)
These tests will
  - install the CRDs trainingjobs.spotrun.dev, capacitypools.spotrun.dev,
    tuningjobs.spotrun.dev, spendlimits.spotrun.dev
  - install registry/operator:1 as release spotrun in the new namespace spotrun-system,
    with rights to the jobs and pods of all namespaces; kill its pods, upgrade it, uninstall it, and
    install it again
  - run 7 tests in namespaces of their own, with pods of registry/trainer:1
    and volumes of nfs
  - remove all of this; the CRDs stay if others have made jobs meanwhile
They leave out what only the kind cluster can carry:
  - test_a, test_b: it takes a node"""
    )


def test_the_plan_says_that_the_operator_stays_if_it_is_to() -> None:
    said = plan(EMPTY, replace(SETTINGS, keep=True), Selection(1, {}))

    assert "  - leave the operator and its CRDs there, for KEEP is set\n" in said
    assert said.endswith("They leave out none.")


class Terminal(io.StringIO):
    @override
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stdin", "given", "words"),
    [
        (io.StringIO("yes\n"), False, "nothing was written, for without a terminal"),
        (Terminal("y\n"), False, "nothing was written, for you did not agree"),
        (Terminal(""), False, "nothing was written, for you did not agree"),
        (Terminal("yes\n"), False, None),
        (io.StringIO(""), True, None),
    ],
    ids=["no terminal", "another word", "the end of a terminal", "agreed", "agreed beforehand"],
)
def test_nothing_goes_on_that_nobody_agreed_to(
    stdin: io.StringIO,
    given: bool,
    words: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)

    if words is None:
        require_consent("the plan", given=given)
    else:
        with pytest.raises(SetupError, match=words):
            require_consent("the plan", given=given)

    assert "e2e: the plan" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("image", "repository", "version"),
    [
        ("registry/operator:1", "registry/operator", "tag=1"),
        ("registry:5000/operator", "registry:5000/operator", "tag=latest"),
        ("registry:5000/a/operator:1", "registry:5000/a/operator", "tag=1"),
        ("operator@sha256:12", "operator", "digest=sha256:12"),
        ("registry:5000/operator:1@sha256:12", "registry:5000/operator", "digest=sha256:12"),
    ],
)
def test_the_chart_is_told_of_any_image(image: str, repository: str, version: str) -> None:
    assert image_values(image) == (
        f"--set-string=image.repository={repository}",
        f"--set-string=image.{version}",
    )


CONFIG = {
    "current-context": "team",
    "clusters": [{"name": "team", "cluster": {"server": "https://10.0.0.1"}}],
}
CLASSES = {"items": [{"metadata": {"name": "nfs"}, "reclaimPolicy": "Delete"}]}


class Commands:
    """kubectl, with answers by words of its arguments; and what was asked of it."""

    def __init__(self, answers: Mapping[str, object]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, *command: str | Path, given: str | None = None) -> str:
        words = tuple(map(str, command))
        assert given is None
        self.asked.append(words)
        answer = next((said for word, said in self.answers.items() if word in words), None)
        if isinstance(answer, Exception):
            raise answer
        return "" if answer is None else json.dumps(answer)

    @property
    def writes(self) -> list[str]:
        verbs = {"apply", "create", "delete", "patch"}
        return [word for words in self.asked for word in words if word in verbs]


FIT: dict[str, object] = {
    "view": CONFIG,
    "--raw=/version": {"gitVersion": "v1.37.0"},
    "deployments": {"items": []},
    "storageclasses": CLASSES,
}


@pytest.fixture
def kubectl(monkeypatch: pytest.MonkeyPatch) -> Commands:
    commands = Commands(dict(FIT))
    monkeypatch.setattr(cluster, "run", commands)
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    return commands


def agree(folder: Path, **more: str) -> Existing:
    return agree_on_existing({**CHOSEN, **more}, SELECTION, folder, print)


def test_a_cluster_is_taken_as_it_was_when_somebody_agreed(
    kubectl: Commands, tmp_path: Path
) -> None:
    found = agree(tmp_path, YES="1")

    assert found.facts() == replace(EMPTY, reclaim_policies={"nfs": "Delete"})
    copy = tmp_path / "kubeconfig"
    assert found.kubectl_command == ("kubectl", f"--kubeconfig={copy}")
    assert (json.loads(copy.read_text()), copy.stat().st_mode & 0o777) == (CONFIG, 0o600)
    assert kubectl.writes == []


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"--minify": SetupError("must exist")}, "no current context: set KUBECONFIG"),
        ({"--raw=/version": SetupError("refused")}, "no answer from https://10.0.0.1, where the"),
        (
            {"deployments": {"items": [{"metadata": {"name": "spotrun", "namespace": "ml"}}]}},
            "spotrun is installed on team as ml/spotrun",
        ),
        (
            {"customresourcedefinition": {"metadata": {"name": "trainingjobs.spotrun.dev"}}},
            "has the CRDs trainingjobs.spotrun.dev",
        ),
        ({"namespace": {"metadata": {"name": "spotrun-system"}}}, "has a namespace"),
        ({"storageclasses": {"items": []}}, "There are: none"),
    ],
    ids=["no context", "no answer", "an operator", "CRDs", "a namespace", "no class"],
)
def test_nothing_is_written_where_it_is_refused(
    kubectl: Commands, tmp_path: Path, answers: dict[str, object], words: str
) -> None:
    kubectl.answers = {**answers, **FIT, **answers}

    with pytest.raises(SetupError, match=words):
        agree(tmp_path, YES="1")

    assert kubectl.writes == []


def test_helm_is_not_led_elsewhere(
    kubectl: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELM_KUBECONTEXT", "production")

    with pytest.raises(SetupError, match="HELM_KUBECONTEXT may lead Helm to another cluster"):
        agree(tmp_path, YES="1")
    assert kubectl.asked == []


def left(kubectl: Commands, tmp_path: Path, **answers: object) -> Existing:
    kubectl.answers = answers
    return Existing(tmp_path / "kubeconfig", SETTINGS, print)


def deleted(kubectl: Commands) -> list[str]:
    return [words[3] for words in kubectl.asked if "delete" in words]


def test_jobs_of_others_keep_the_definitions(
    kubectl: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "uninstall", lambda *_: None)
    definition = {"metadata": {"name": "trainingjobs.spotrun.dev"}}
    job = {"metadata": {"name": "llm", "namespace": "ml"}}
    jobs = {"trainingjobs.spotrun.dev": definition, "--all-namespaces": {"items": [job]}}
    there = left(kubectl, tmp_path, **dict(reversed(jobs.items())))

    with pytest.raises(SetupError, match="the CRDs stay, for jobs are left: ml/llm"):
        there.down()
    assert deleted(kubectl) == ["namespace"]

    left(kubectl, tmp_path, customresourcedefinition=definition).down()
    assert deleted(kubectl)[1:] == ["namespace", "customresourcedefinition"]


def test_an_operator_that_never_ran_is_removed_without_its_hook(
    kubectl: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[tuple[str, ...]] = []

    def uninstall(_: Existing, *options: str) -> None:
        tried.append(options)
        if "--no-hooks" not in options:
            raise HelmError("the hook was not done in time")

    monkeypatch.setattr(cluster, "uninstall", uninstall)

    left(kubectl, tmp_path).down()

    assert tried == [("--ignore-not-found",), ("--ignore-not-found", "--no-hooks")]
    assert deleted(kubectl) == ["namespace", "customresourcedefinition"]
