"""What the chart renders is accepted by a real API server, and says what its values say."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts import manifests
from charts.manifests import CHART
from devcluster.cluster import Cluster
from spotrun.api import load
from spotrun.cli.cluster.installation import CONFIG_MAP
from tests.integration.chart.helpers import CASES, IMAGE, Helm, identity, of_kind
from tests.integration.manifests.helpers import only

ROOT = CHART.parents[1]


def operator_pod(documents: list[dict[str, Any]]) -> dict[str, Any]:
    (deployment,) = of_kind(documents, "Deployment")
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


def environment(documents: list[dict[str, Any]]) -> dict[str, str]:
    (container,) = operator_pod(documents)["containers"]
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


@pytest.mark.parametrize("case", CASES)
def test_helm_finds_nothing_to_complain_of(helm: Helm, case: str) -> None:
    values = CHART / "ci" / f"{case}-values.yaml"

    assert "0 chart(s) failed" in helm("lint", CHART, "--strict", f"--values={values}")


@pytest.mark.parametrize("case", CASES)
def test_everything_is_accepted_by_the_api_server(helm: Helm, place: Cluster, case: str) -> None:
    objects = {"apiVersion": "v1", "kind": "List", "items": helm.case(case)}

    dry = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    said = place.kubectl("apply", *dry, "-f", "-", input=json.dumps(objects))

    assert len(said.stdout.splitlines()) == len(objects["items"])


@pytest.mark.parametrize("case", CASES)
def test_each_object_is_there_once_and_has_its_place(helm: Helm, case: str) -> None:
    documents = helm.case(case)
    cluster_wide = {"CapacityPool", "CustomResourceDefinition", "FlowSchema"}
    cluster_wide |= {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    cluster_wide |= {"ClusterRole", "ClusterRoleBinding"}

    identities = [identity(document) for document in documents]
    assert sorted(set(identities)) == sorted(identities)
    assert {kind for kind, where, _ in identities if not where} <= cluster_wide


@pytest.mark.parametrize("name", sorted(manifests.MANIFESTS))
def test_manifests_are_what_the_chart_renders(helm: Helm, name: str) -> None:
    # If this fails run `python -m charts`.
    path = f"manifests/{name}"
    assert (ROOT / path).read_text() == manifests.rendered(helm.path)[path]


def test_the_kustomization_is_accepted_by_the_api_server(place: Cluster) -> None:
    dry = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    said = place.kubectl("apply", *dry, "-k", str(ROOT)).stdout

    assert "deployment.apps/spotrun serverside-applied (server dry run)" in said
    assert "customresourcedefinition.apiextensions.k8s.io/trainingjobs.spotrun.dev" in said


def test_a_package_holds_all_that_a_checkout_does(helm: Helm, tmp_path: Path) -> None:
    helm("package", CHART, f"--destination={tmp_path}")
    (package,) = tmp_path.iterdir()

    assert helm.template(IMAGE, chart=package) == helm.template(IMAGE)


def test_it_may_be_a_part_of_another_chart(helm: Helm, tmp_path: Path) -> None:
    parent = tmp_path / "platform"
    (parent / "charts").mkdir(parents=True)
    (parent / "charts/spotrun").symlink_to(CHART)
    dependency = {"name": "spotrun", "version": "*-0", "condition": "spotrun.enabled"}
    chart = {"apiVersion": "v2", "name": "platform", "version": "1.0.0"}
    (parent / "Chart.yaml").write_text(yaml.safe_dump({**chart, "dependencies": [dependency]}))
    values = {"spotrun": {"enabled": True}, "global": {"domain": "example.com"}}
    (parent / "values.yaml").write_text(yaml.safe_dump(values))

    image = "--set=spotrun.image.repository=your-registry/spotrun-operator"
    assert len(of_kind(helm.template(image, chart=parent), "Deployment")) == 1
    assert helm.template(image, "--set=spotrun.enabled=false", chart=parent) == []


REFUSALS = {
    "no image": ((), "image.repository is missing: build operator/Dockerfile"),
    "a misspelt value": ((IMAGE, "--set=replica=3"), "'replica' not allowed"),
    "a misspelt value below another": (
        (IMAGE, "--set=metrics.rules.enable=true"),
        "'enable' not allowed",
    ),
    "a tag that loses its zero": ((IMAGE, "--set-json=image.tag=1.10"), "/image/tag': got number"),
    "a number in words": ((IMAGE, "--set=replicas=two"), "replicas"),
    "a digest that is none": ((IMAGE, "--set=image.digest=latest"), "image/digest"),
    "another source of certificates": ((IMAGE, "--set=tls.source=vault"), "tls/source"),
    "cert-manager without an issuer": (
        (IMAGE, "--set=tls.source=certManager"),
        "tls.certManager.issuerRef is missing: say who signs",
    ),
    "a secret without a name": ((IMAGE, "--set=tls.source=secret"), "tls.secretName is missing"),
    "an account without a name": (
        (IMAGE, "--set=serviceAccount.create=false"),
        "serviceAccount.name is missing: name an account that is there",
    ),
    "two sources of prices": (
        (IMAGE, "--set=prices.tables.a=b", "--set=prices.configMap=c"),
        "prices.tables and prices.configMap are both given",
    ),
    "a namespace that cannot be": ((IMAGE, "--set=watchNamespace=ML_team"), "watchNamespace"),
    "an older Kubernetes": ((IMAGE, "--kube-version=1.31.9"), "requires kubeVersion: >=1.32"),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_cannot_be_meant_is_refused(
    helm: Helm, arguments: tuple[str, ...], words: str
) -> None:
    assert words in helm.refusal(*arguments)


def test_a_digest_counts_before_a_tag(helm: Helm) -> None:
    digest = f"sha256:{'a' * 64}"
    both = helm.template(IMAGE, "--set-string=image.tag=1", f"--set=image.digest={digest}")

    (container,) = operator_pod(both)["containers"]
    assert container["image"] == f"your-registry/spotrun-operator@{digest}"


@pytest.mark.parametrize("case", CASES)
def test_every_pod_is_restricted_and_has_limits(helm: Helm, case: str) -> None:
    documents = helm.case(case)
    pods = [d["spec"]["template"]["spec"] for d in documents if d["kind"] in {"Deployment", "Job"}]
    pods += [d["spec"] for d in of_kind(documents, "Pod")]

    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        asked, most = (container["resources"][part] for part in ("requests", "limits"))
        assert asked.keys() == {"cpu", "memory", "ephemeral-storage"}
        assert most.keys() == {"memory", "ephemeral-storage"}


def test_every_pod_has_a_policy_of_who_reaches_it(helm: Helm) -> None:
    documents = helm.case("default")
    policies = of_kind(documents, "NetworkPolicy")
    (deployment,), (job,), (test,) = (
        of_kind(documents, kind) for kind in ("Deployment", "Job", "Pod")
    )

    for pod in (deployment["spec"]["template"], job["spec"]["template"], test):
        (policy,) = (one for one in policies if selects(one["spec"]["podSelector"], pod))
        assert "Ingress" in policy["spec"]["policyTypes"]
        reached = bool(policy["spec"]["ingress"])
        assert reached is (pod is deployment["spec"]["template"])


def test_with_the_ports_of_the_api_server_no_pod_goes_anywhere_else(helm: Helm) -> None:
    documents = helm.template(IMAGE, "--set=networkPolicy.apiServerPorts={6443}")
    names = [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]
    (deployment,) = of_kind(documents, "Deployment")
    tested = {
        "ports": [{"port": 8443}, {"port": 8080}],
        "to": [{"podSelector": deployment["spec"]["selector"]}],
    }
    there = [{"ports": names}, {"ports": [{"port": 6443}]}]

    assert {
        policy["metadata"]["name"]: policy["spec"]["egress"]
        for policy in of_kind(documents, "NetworkPolicy")
    } == {"spotrun": there, "spotrun-helpers": [*there, tested]}


def selects(selector: dict[str, Any], pod: dict[str, Any]) -> bool:
    wanted = selector["matchLabels"].items()
    return bool(wanted <= pod["metadata"]["labels"].items())


def test_only_the_operators_pods_are_behind_its_services(helm: Helm) -> None:
    documents = helm.case("default")
    (selector,) = {
        json.dumps(service["spec"]["selector"], sort_keys=True)
        for service in of_kind(documents, "Service")
    }
    (deployment,) = of_kind(documents, "Deployment")
    wanted = json.loads(selector).items()

    assert wanted <= deployment["spec"]["template"]["metadata"]["labels"].items()
    for helper in (*of_kind(documents, "Job"), *of_kind(documents, "Pod")):
        assert not wanted <= helper["metadata"]["labels"].items()
        template = helper["spec"].get("template", helper)
        assert not wanted <= template["metadata"]["labels"].items()


def test_users_may_read_what_the_command_line_has_to_know_and_no_more(helm: Helm) -> None:
    documents = helm.case("namespaced")
    (told,) = of_kind(documents, "ConfigMap")
    (binding,) = (
        one
        for one in of_kind(documents, "RoleBinding")
        if one["subjects"][0]["name"] == "system:authenticated"
    )
    (role,) = (
        one
        for one in of_kind(documents, "Role")
        if one["metadata"]["name"] == binding["roleRef"]["name"]
    )

    assert told["metadata"]["name"] == CONFIG_MAP
    assert told["data"] == {
        "version": yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"],
        "trainerImage": environment(documents)["SPOTRUN_TRAINER_IMAGE"],
        "watchNamespace": "ml",
    }
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [CONFIG_MAP],
            "verbs": ["get"],
        }
    ]


def test_rights_for_one_namespace_end_there(helm: Helm) -> None:
    documents = helm.case("namespaced")
    everywhere = [
        resource
        for role in of_kind(documents, "ClusterRole")
        if "rbac.authorization.k8s.io/aggregate-to-view" not in role["metadata"]["labels"]
        and "rbac.authorization.k8s.io/aggregate-to-edit" not in role["metadata"]["labels"]
        for rule in role["rules"]
        for resource in rule["resources"]
    ]
    (there,) = (r for r in of_kind(documents, "Role") if r["metadata"]["namespace"] == "ml")

    assert "pods" not in everywhere
    assert "trainingjobs" not in everywhere
    assert "pods" in {resource for rule in there["rules"] for resource in rule["resources"]}
    assert environment(documents)["SPOTRUN_WATCH_NAMESPACE"] == "ml"
    (cleanup,) = of_kind(documents, "Job")
    (container,) = cleanup["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [
        "cleanup",
        "--stop-deployment=fleet",
        "--watch-namespace=ml",
    ]


def test_prices_come_from_the_table_that_is_made(helm: Helm) -> None:
    documents = helm.case("everything")
    (table,) = (one for one in of_kind(documents, "ConfigMap") if "ours.csv" in one.get("data", {}))

    assert environment(documents)["SPOTRUN_PRICE_TABLE"] == table["metadata"]["name"]
    home = only(documents, "Role", "spotrun")
    assert ["spotrun-prices"] in [rule.get("resourceNames") for rule in home["rules"]]


def test_given_certificates_are_mounted_where_the_operator_looks(helm: Helm) -> None:
    documents = helm.case("everything")
    told = environment(documents)
    (container,) = operator_pod(documents)["containers"]
    (volume,) = operator_pod(documents)["volumes"]
    (certificate,) = of_kind(documents, "Certificate")

    folders = {str(Path(told[f"SPOTRUN_TLS_{part}"]).parent) for part in ("CERT", "KEY", "CA")}
    assert folders == {container["volumeMounts"][0]["mountPath"]}
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    assert certificate["spec"]["dnsNames"] == ["sync.spotrun.dev"]


def test_definitions_are_kept_unless_told_otherwise(helm: Helm) -> None:
    kept = of_kind(helm.case("default"), "CustomResourceDefinition")
    left = of_kind(helm.case("everything"), "CustomResourceDefinition")

    assert [one["metadata"].pop("annotations") for one in kept] == [
        {"helm.sh/resource-policy": "keep"}
    ] * 4
    assert kept == left
    shipped = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").iterdir())]
    assert sorted(left, key=identity) == sorted(shipped, key=identity)
    assert of_kind(helm.case("least"), "CustomResourceDefinition") == []


def test_pools_wait_for_their_definition(helm: Helm) -> None:
    values = f"--values={CHART / 'ci/namespaced-values.yaml'}"
    blank = helm("template", "spotrun", CHART, "--kube-version=1.37.0", values)
    notes = ("install", "spotrun", CHART, "--dry-run=client", values)

    assert "kind: CapacityPool\nmetadata:\n  name: spot-a10g" not in blank
    (pool,) = of_kind(helm.case("namespaced"), "CapacityPool")
    load(pool)
    assert "NOT YET MADE: your 1 CapacityPools" in helm(*notes)


def test_who_gives_no_prices_is_told_where_they_are_missing(helm: Helm) -> None:
    given = ("--set=image.repository=r/operator", "--set=trainerImage=r/trainer")
    silent, asking = (
        helm("install", "spotrun", CHART, "--dry-run=client", *given, *prices)
        for prices in ((), ("--set=prices.azureRegions={eastus}",))
    )

    assert "PRICES: spotrun asks no cloud what nodes cost." in silent
    assert "PRICES:" not in asking


def test_every_alert_is_there_but_those_left_out(helm: Helm) -> None:
    files = {path.stem for path in (CHART / "alerts").glob("*.yaml")}
    (rules,) = of_kind(helm.case("everything"), "PrometheusRule")

    named = {rule["alert"] for group in rules["spec"]["groups"] for rule in group["rules"]}
    assert named == files - {"TrainingJobBudget80"}


def test_every_dashboard_is_there_as_it_was_drawn(helm: Helm) -> None:
    maps = [
        one
        for one in of_kind(helm.case("everything"), "ConfigMap")
        if "grafana_dashboard" in one["metadata"]["labels"]
    ]
    drawn = {path.name: path.read_text() for path in (CHART / "dashboards").glob("*.json")}

    shown = {name: text for one in maps for name, text in one["data"].items()}
    assert {f"spotrun-{name}" for name in drawn} == set(shown)
    for name, text in drawn.items():
        assert json.loads(shown[f"spotrun-{name}"]) == json.loads(text)


def test_the_notes_say_that_pull_secrets_do_not_reach_the_namespaces_of_jobs(helm: Helm) -> None:
    notes = ("install", "spotrun", CHART, "--dry-run=client", IMAGE)
    private = "--set=imagePullSecrets[0].name=registry"
    assert "PULL SECRETS: workers with images other than" in helm(*notes, private)
    assert "PULL SECRETS" not in helm(*notes, private, "--set=inject.enabled=false")
    assert "PULL SECRETS" not in helm(*notes)


def test_the_notes_lead_to_a_job_that_is_accepted(helm: Helm, place: Cluster) -> None:
    notes = helm("install", "spotrun", CHART, "--dry-run=client", IMAGE)
    between = notes.split("apply -f - <<END\n")[1].split("    END\n")[0]
    job = yaml.safe_load(between)

    load(job)
    job["metadata"]["namespace"] = "ml"
    strict = ("--dry-run=server", "--validate=strict", "-f", "-")
    place.kubectl("create", *strict, input=json.dumps(job))
