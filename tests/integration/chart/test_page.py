"""The page that the chart serves: off, behind an authentication, with rights to read alone."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from devcluster.addresses import free_ports
from devcluster.cluster import Cluster
from tests.integration.chart.helpers import IMAGE, Helm, of_kind
from tests.integration.manifests.helpers import apply
from tests.support.processes.plugin import PROGRAMS

HOST = "spotrun.example.com"
ON = ("--set=page.enabled=true", f"--set=page.hosts={{{HOST}}}")
BY = "--set=page.authenticatedBy=oauth2-proxy"
ACCOUNT = "system:serviceaccount:spotrun-system:spotrun-page"
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
READING = {"get", "list", "watch"}


def of_page(documents: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    found = [one for kind in kinds for one in of_kind(documents, kind)]
    return [one for one in found if one["metadata"]["name"].startswith("spotrun-page")]


def test_there_is_no_page_if_nobody_asks_for_one(helm: Helm) -> None:
    assert of_page(helm.template(IMAGE), "Deployment", "Service", *RIGHTS) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (ON, "page.authenticatedBy is missing"),
        (("--set=page.enabled=true", BY), "page.hosts is empty"),
        ((*ON, BY, "--set-json=page.from=[]"), "minItems"),
        (("--set=page.enabled=true", BY, "--set=page.hosts={*}"), "does not match pattern"),
    ],
)
def test_a_page_without_what_guards_it_is_refused(
    helm: Helm, given: tuple[str, ...], said: str
) -> None:
    assert said in helm.refusal(IMAGE, *given)


@pytest.mark.parametrize("scope", [(), ("--set=watchNamespace=ml",)])
def test_the_page_may_read_and_nothing_else(helm: Helm, scope: tuple[str, ...]) -> None:
    documents = helm.template(IMAGE, *ON, BY, *scope)
    roles = of_page(documents, "ClusterRole", "Role")

    rules = [rule for role in roles for rule in role["rules"]]
    assert {verb for rule in rules for verb in rule["verbs"]} <= READING
    named = {resource for rule in rules for resource in rule["resources"]}
    assert named == {"trainingjobs", "spendlimits", "capacitypools", "pods", "nodes", "events"}
    everywhere = {
        resource
        for role in roles
        if role["kind"] == "ClusterRole"
        for rule in role["rules"]
        for resource in rule["resources"]
    }
    assert everywhere == ({"capacitypools", "nodes"} if scope else named)


def test_only_the_authentication_reaches_the_page(helm: Helm) -> None:
    documents = helm.case("page")
    (policy,) = of_page(documents, "NetworkPolicy")
    (deployment,) = of_page(documents, "Deployment")
    (service,) = of_page(documents, "Service")
    peers = [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "oauth2-proxy"}}}]

    assert policy["spec"]["ingress"] == [{"ports": [{"port": "page"}], "from": peers}]
    selected = deployment["spec"]["selector"]
    assert policy["spec"]["podSelector"] == selected
    assert service["spec"]["selector"] == selected["matchLabels"]
    [operators] = [one for one in of_kind(documents, "Deployment") if one is not deployment]
    assert operators["spec"]["selector"] != selected


def may(place: Cluster, *asking: str) -> bool:
    asked = ("auth", "can-i", *asking, f"--as={ACCOUNT}", "-n=ml")
    return place.kubectl(*asked, check=False).stdout.strip() == "yes"


@asynccontextmanager
async def serving(kubeconfig: Path, *words: str) -> AsyncIterator[str]:
    """Start the command of the page's pod, here."""
    [port] = map(str, free_ports("127.0.0.1", 1))
    process = await asyncio.create_subprocess_exec(
        PROGRAMS / "spotrun",
        *("page", "--kubeconfig", str(kubeconfig), "--port", port, *words),
        env={**os.environ, "KUBECONFIG": ""},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        said = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        assert said == f"serves {HOST} behind oauth2-proxy\n"
        yield f"http://127.0.0.1:{port}/"
    finally:
        if process.returncode is None:
            process.terminate()
        assert await asyncio.wait_for(process.wait(), 20) == 0


async def test_the_page_is_served_with_the_rights_of_its_account(
    helm: Helm, place: Cluster, tmp_path: Path
) -> None:
    documents = helm.case("page")
    apply(place, *of_page(documents, *RIGHTS))
    token = place.kubectl("-n", "spotrun-system", "create", "token", "spotrun-page").stdout.strip()
    config = json.loads(place.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    file = tmp_path / "config"
    file.write_text(json.dumps(config))
    [deployment] = of_page(documents, "Deployment")
    [container] = deployment["spec"]["template"]["spec"]["containers"]

    async with serving(file, *container["args"][1:]) as root, aiohttp.ClientSession() as session:
        known = {"Host": HOST}
        async with session.get(root, headers=known) as answer:
            assert (answer.status, "script-src 'self'" in str(answer.headers)) == (200, True)
        async with session.get(f"{root}api/fleet", headers=known) as answer:
            first = json.loads((await answer.content.readline())[len("data: ") :])
        async with session.get(root) as answer:
            assert answer.status == 421
        async with session.post(root, headers=known) as answer:
            assert answer.status == 405
    assert first["isWhole"]
    assert "notes" not in first  # nothing is hidden from it
    assert may(place, "get", "pods", "--subresource=log")
    assert not any(
        may(place, verb, resource)
        for verb, resource in (("get", "secrets"), ("patch", "trainingjobs"), ("create", "pods"))
    )
