"""Every pair of settings, together and apart: the API server takes what comes of it."""

import json
from argparse import ArgumentParser, Namespace
from itertools import combinations

import pytest

from devcluster.cluster import Cluster
from spotrun.cli.operator_process.flags import describe
from spotrun.runtime.options import read
from tests.integration.chart.helpers import IMAGE, Helm, of_kind

SETTINGS = (
    "--set=fullnameOverride=fleet",
    "--set=image.digest=sha256:" + "a" * 64,
    "--set=imagePullSecrets[0].name=registry",
    "--set=watchNamespace=ml",
    "--set=restricted=true",
    "--set=replicas=1",
    "--set=log.format=text,log.level=debug",
    "--set-json=topologySpreadConstraints=[]",
    "--set=nodeSelector.disk=ssd,tolerations[0].operator=Exists",
    '--set-json=extraEnv=[{"name": "TZ", "value": "UTC"}]',
    "--set=podLabels.team=platform,podAnnotations.scraped=yes",
    "--set=podDisruptionBudget.enabled=false",
    "--set=serviceAccount.create=false,serviceAccount.name=given",
    "--set=rbac.create=false",
    "--set=rbac.aggregate=false",
    "--set=admission.enabled=false",
    "--set=flowSchema.enabled=false",
    "--set=networkPolicy.enabled=false",
    "--set=networkPolicy.apiServerPorts={443}",
    "--set=tls.source=secret,tls.secretName=agents",
    "--set=tls.source=certManager,tls.certManager.issuerRef.name=ours",
    "--set-string=prices.tables.ours\\.csv=instanceType",
    "--set=prices.awsRegions={us-east-1,eu-west-1}",
    "--set=pools[0].name=cheap,pools[0].spec.instanceTypes={g5.xlarge},pools[0].spec.capacity=Spot",
    "--set=crds.install=false",
    "--set=crds.keep=false",
    "--set=cleanup.enabled=false",
    "--set=metrics.serviceMonitor.enabled=true",
    "--set=metrics.rules.enabled=true",
    "--set=metrics.dashboards.enabled=true",
    "--set=priorityClassName=system-cluster-critical",
    "--set=serviceAccount.annotations.role=prices",
)

ROWS = 8
"""Each setting is on in four of the last seven rows, no two of them in the same four: any two are
both on in one row, both off in the first, and each is on without the other (Kleitman, Spencer)."""
ON_IN = dict(zip(SETTINGS, combinations(range(1, ROWS), 4), strict=False))


def no_flags() -> Namespace:
    """What a container of the chart says on its command line."""
    parser = ArgumentParser()
    describe(parser)
    return parser.parse_args([])


def row(number: int) -> list[str]:
    return [setting for setting in SETTINGS if number in ON_IN[setting]]


def test_every_pair_is_there_in_all_four_ways() -> None:
    rows = [set(row(number)) for number in range(ROWS)]

    for one, other in combinations(SETTINGS, 2):
        assert {(one in on, other in on) for on in rows} == {
            (False, False),
            (False, True),
            (True, False),
            (True, True),
        }


@pytest.mark.parametrize("number", range(ROWS))
def test_the_api_server_and_the_operator_take_what_comes_of_it(
    helm: Helm, place: Cluster, number: int
) -> None:
    documents = helm.template(IMAGE, *row(number))
    objects = {"apiVersion": "v1", "kind": "List", "items": documents}

    dry = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    said = place.kubectl("apply", *dry, "-f", "-", input=json.dumps(objects))

    assert len(said.stdout.splitlines()) == len(documents)
    (deployment,) = of_kind(documents, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    told = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    assert read(no_flags(), told).advertise is not None
