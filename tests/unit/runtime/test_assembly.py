"""From options to settings: what the machine and the pod add to what was told."""

import sys
from pathlib import Path

import pytest

from spotrun.kube.lease import Terms
from spotrun.observe.prices.tables import PriceSources
from spotrun.runtime import cluster_access
from spotrun.runtime.assembly import settings_of
from spotrun.runtime.options import HostPort, Options

SERVER = "https://127.0.0.1:6443"


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "KUBECONFIG", "POD_IP"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("home\n")
    monkeypatch.setattr(cluster_access, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("POD_IP", "10.1.2.3")


def test_outside_a_cluster_agents_come_to_this_machine() -> None:
    settings = settings_of(Options(agents_port=9443), SERVER)

    assert (settings.namespace, settings.watch_namespace) == ("spotrun-system", None)
    assert (settings.advertise, settings.address) == ("127.0.0.1:9443", "127.0.0.1:9443")
    assert settings.agents.port == 9443


def test_a_pod_knows_its_namespace_and_address(pod: None) -> None:
    settings = settings_of(Options(advertise=HostPort("agents.home.svc", 443)), SERVER)

    assert settings.namespace == "home"
    assert settings.address == "10.1.2.3:8443"
    assert settings.advertise == "agents.home.svc:443"


def test_a_pod_must_be_told_of_its_service(pod: None) -> None:
    with pytest.raises(
        ValueError, match=r"--advertise is missing: .*spotrun-agents\.home\.svc:844"
    ):
        settings_of(Options(), SERVER)


def test_what_was_told_counts_before_what_was_found(pod: None) -> None:
    options = Options(
        namespace="told", address=HostPort("192.0.2.1", 1), advertise=HostPort("192.0.2.2", 2)
    )

    settings = settings_of(options, SERVER)

    assert (settings.namespace, settings.address) == ("told", "192.0.2.1:1")


def test_addresses_of_ipv6_are_written_in_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_IP", "2001:db8::7")

    settings = settings_of(Options(), SERVER)

    assert settings.address == "[2001:db8::7]:8443"


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".invalid"])
def test_a_name_that_nobody_can_have_is_no_way_to_find_our_address(host: str) -> None:
    with pytest.raises(ValueError, match=rf"https://{host}:6443 cannot be found .* --address"):
        settings_of(Options(), f"https://{host}:6443")


def test_an_api_server_without_an_address_is_no_way_to_find_ours() -> None:
    with pytest.raises(ValueError, match=r"https://nowhere\.invalid cannot be found .* --address"):
        settings_of(Options(), "https://nowhere.invalid")


def test_the_lease_keeps_its_proportions() -> None:
    settings = settings_of(Options(), SERVER)

    assert settings.terms == Terms()
    assert settings_of(Options(lease_seconds=3), SERVER).terms == Terms(3, 2, 0.4)


def test_live_prices_are_asked_for_only_where_somebody_says_so() -> None:
    assert settings_of(Options(), SERVER).price_sources == PriceSources()
    told = Options(aws_prices=("us-east-1",), azure_prices=("eastus",), gcp_prices=("us-central1",))
    asked = settings_of(told, SERVER).price_sources
    sources = [[table.source for table in cloud.tables()] for cloud in asked.live]
    of_aws = ["AWS spot prices", "AWS price list"]
    assert sources == [of_aws, ["Azure retail prices"], ["GCP price catalog"]]


def test_who_wants_live_prices_without_boto3_is_told_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    complaint = r"--aws-prices: live prices of AWS need boto3, .*: install spotrun\[aws\]"
    with pytest.raises(ValueError, match=complaint):
        settings_of(Options(aws_prices=("us-east-1",)), SERVER)
