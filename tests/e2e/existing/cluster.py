"""A cluster that is there already: that of the current context of kubectl."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from charts.helm import HelmError
from devcluster.client import Manifest
from tests.e2e.cluster import Progress
from tests.e2e.existing import settings
from tests.e2e.existing.consent import require_consent
from tests.e2e.existing.preflight import DEFINITIONS, Facts, Selection, objection, plan
from tests.e2e.files import StorageClassFiles
from tests.e2e.installation import SYSTEM, uninstall
from tests.e2e.kind.machine import SetupError, run

_SHORTLY = "--request-timeout=20s"


@dataclass(frozen=True)
class Existing:
    """Reached by a copy of its part of the kubeconfig: who goes over to another context meanwhile
    does not take the tests there."""

    kubeconfig: Path
    settings: settings.Settings
    progress: Progress

    @property
    def kubectl_command(self) -> tuple[str | Path, ...]:
        """The kubectl of whoever has the cluster: their way to log in may need it."""
        return ("kubectl", f"--kubeconfig={self.kubeconfig}")

    @property
    def files(self) -> StorageClassFiles:
        """Volumes of the storage class that was named."""
        return StorageClassFiles(
            self.kubectl, self.settings.storage_class, self.settings.trainer_image
        )

    @property
    def placement(self) -> Manifest:
        """Any node, for of none it is known how it is had."""
        return {}

    @property
    def operator_values(self) -> tuple[str, ...]:
        """Any node."""
        return ()

    @property
    def patience_seconds(self) -> float:
        """A node may have to join first, and to fetch an image of gigabytes."""
        return 900

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """Run kubectl against it."""
        return run(*self.kubectl_command, *arguments, given=given)

    def up(self) -> dict[str, str]:
        """Return the images; the cluster is up already."""
        return {
            "spotrun-operator": self.settings.operator_image,
            "spotrun-trainer": self.settings.trainer_image,
        }

    def down(self) -> None:
        """Uninstall the operator; then remove its namespace and the CRDs, which came with it."""
        self.progress("removing the operator and its CRDs")
        try:
            uninstall(self, "--ignore-not-found")
        except HelmError as error:  # an image that no node can pull cannot run the hook either
            self.progress(f"once more without its hook, for Helm said: {error}")
            uninstall(self, "--ignore-not-found", "--no-hooks")
        self.kubectl("delete", "namespace", SYSTEM, "--ignore-not-found", "--timeout=180s")
        self._require_no_jobs()
        definitions = ("customresourcedefinition", *DEFINITIONS)
        self.kubectl("delete", *definitions, "--ignore-not-found", "--timeout=180s")

    def facts(self) -> Facts:
        """Look at it; raises `SetupError` where nobody answers."""
        config = json.loads(self.kubectl("config", "view", "--output=json"))
        server = config["clusters"][0]["cluster"]["server"]
        try:
            version = json.loads(self.kubectl("get", "--raw=/version", _SHORTLY))
        except SetupError as error:
            raise SetupError(
                f"no answer from {server}, where the context {config['current-context']} leads: "
                f"try `kubectl version`, or another context\n{error}"
            ) from error
        operators = ("--all-namespaces", "--selector=app.kubernetes.io/name=spotrun")
        return Facts(
            config["current-context"],
            server,
            version["gitVersion"],
            self._definitions(),
            tuple(map(_place, self._list("deployments", *operators))),
            bool(self._list("namespace", SYSTEM, "--ignore-not-found")),
            {_name(one): one["reclaimPolicy"] for one in self._list("storageclasses")},
        )

    def _definitions(self) -> tuple[str, ...]:
        found = self._list("customresourcedefinition", *DEFINITIONS, "--ignore-not-found")
        return tuple(map(_name, found))

    def _require_no_jobs(self) -> None:
        """Jobs that somebody else has made meanwhile would go with the CRDs."""
        if not self._definitions():
            return
        left = list(map(_place, self._list("trainingjobs.spotrun.dev", "--all-namespaces")))
        if left:
            raise SetupError(
                f"the CRDs stay, for jobs are left: {', '.join(left)}. Once nobody needs these: "
                f"kubectl delete customresourcedefinition {' '.join(DEFINITIONS)}"
            )

    def _list(self, *what: str) -> list[Manifest]:
        """Return the objects that `kubectl get` finds: it prints nothing, one object, or a List."""
        said = self.kubectl("get", *what, "--output=json", _SHORTLY)
        found: Manifest = json.loads(said) if said.strip() else {"items": []}
        return list(found.get("items", [found]))


def agree_on_existing(
    environment: Mapping[str, str], selection: Selection, folder: Path, progress: Progress
) -> Existing:
    """The cluster of the current context, once it is found fit and somebody has agreed.

    Raises `SetupError` with what to try; nothing was written to it then. A copy of the kubeconfig
    is kept in `folder`.
    """
    wanted = settings.read(environment)
    found = Existing(_kubeconfig(folder), wanted, progress)
    facts = found.facts()
    if refused := objection(facts, wanted):
        raise SetupError(refused)
    require_consent(plan(facts, wanted, selection), given=wanted.yes)
    return found


def _kubeconfig(folder: Path) -> Path:
    if not shutil.which("kubectl"):
        raise SetupError("kubectl was not found: install it, and put it on PATH")
    if elsewhere := sorted(name for name in os.environ if name.startswith("HELM_KUBE")):
        raise SetupError(
            f"{', '.join(elsewhere)} may lead Helm to another cluster than kubectl: unset it"
        )
    try:
        shown = run("kubectl", "config", "view", "--minify", "--flatten", "--raw", "--output=json")
    except SetupError as error:
        raise SetupError(
            "kubectl has no current context: set KUBECONFIG, or choose one with `kubectl config "
            f"use-context`\n{error}"
        ) from error
    copy = folder / "kubeconfig"
    copy.touch(mode=0o600)
    copy.write_text(shown)
    return copy


def _name(found: Manifest) -> str:
    return str(found["metadata"]["name"])


def _place(found: Manifest) -> str:
    return f"{found['metadata']['namespace']}/{_name(found)}"
