"""Values may change under a release; what Kubernetes lets nobody change stays as it is."""

from typing import Any

import yaml

from charts.manifests import CHART
from tests.integration.chart.helpers import CASES, IMAGE, Helm, identity, of_kind

IMMUTABLE = {
    "Deployment": ("spec", "selector"),
    "Service": ("spec", "clusterIP"),
    "RoleBinding": ("roleRef",),
    "ClusterRoleBinding": ("roleRef",),
}
"""The fields that no upgrade can change, by kind."""


def immutable_parts(documents: list[dict[str, Any]]) -> dict[Any, Any]:
    found = {}
    for document in documents:
        part: Any = document
        for name in IMMUTABLE.get(document["kind"], ()):
            part = part.get(name, {})
        if document["kind"] in IMMUTABLE:
            found[identity(document)] = part
    return found


def test_no_change_of_values_touches_what_cannot_be_changed(helm: Helm) -> None:
    # An override of the name makes other objects, which it says of itself.
    renders = [immutable_parts(helm.case(case)) for case in CASES]
    namespaced = immutable_parts(helm.template(IMAGE, "--set=watchNamespace=ml"))

    for before in renders:
        for after in (*renders, namespaced):
            common = before.keys() & after.keys()
            assert {key: before[key] for key in common} == {key: after[key] for key in common}


def test_a_release_of_another_name_has_nothing_in_common(helm: Helm) -> None:
    with_crds = {"CustomResourceDefinition"}
    ours = {identity(d) for d in helm.case("default") if d["kind"] not in with_crds}
    other = helm("template", "fleet", CHART, IMAGE, "--kube-version=1.37.0", "--namespace=fleet")
    theirs = [d for d in yaml.safe_load_all(other) if d and d["kind"] not in with_crds]

    assert ours & {identity(d) for d in theirs} == set()


def test_several_namespaces_are_served_by_a_release_each(helm: Helm) -> None:
    # As docs/install.md says.
    shared = "--set=crds.install=false,admission.enabled=false"
    first = helm.template(IMAGE, "--set=watchNamespace=ml")
    more = helm(
        *("template", "vision", CHART, IMAGE, "--kube-version=1.37.0"),
        *("--namespace=vision-spotrun", "--set=watchNamespace=vision", shared),
    )
    second = [document for document in yaml.safe_load_all(more) if document]

    assert {identity(d) for d in first} & {identity(d) for d in second} == set()
    (deployment,) = of_kind(second, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "SPOTRUN_WATCH_NAMESPACE", "value": "vision"} in container["env"]
