import argparse
import logging
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from spotrun.cli.operator_process.flags import describe
from spotrun.runtime.options import HostPort, Options, read, variable


def options(*arguments: str, **environment: str) -> Options:
    parser = argparse.ArgumentParser()
    describe(parser)
    return read(parser.parse_args(arguments), environment)


EACH: dict[str, tuple[str, Any]] = {
    "kubeconfig": ("/a/b", Path("/a/b")),
    "context": ("c", "c"),
    "namespace": ("home", "home"),
    "watch_namespace": ("ml", "ml"),
    "advertise": ("agents.home.svc:443", HostPort("agents.home.svc", 443)),
    "address": ("[2001:db8::7]:8443", HostPort("2001:db8::7", 8443)),
    "agents_host": ("127.0.0.1", "127.0.0.1"),
    "agents_port": ("9443", 9443),
    "metrics_host": ("::1", "::1"),
    "metrics_port": ("9080", 9080),
    "liveness_port": ("9081", 9081),
    "inject_image": ("registry/operator:1", "registry/operator:1"),
    "trainer_image": ("registry/trainer:1", "registry/trainer:1"),
    "restricted": ("true", True),
    "kueue": ("true", True),
    "kueue_priority_boost": ("20", 20),
    "preempt_across_namespaces": ("true", True),
    "price_table": ("spotrun-prices", "spotrun-prices"),
    "aws_prices": ("us-east-1, eu-west-1", ("us-east-1", "eu-west-1")),
    "azure_prices": ("eastus,westeurope", ("eastus", "westeurope")),
    "gcp_prices": ("us-central1", ("us-central1",)),
    "workers": ("4", 4),
    "lease_seconds": ("30", 30),
    "log_format": ("json", "json"),
    "log_level": ("warning", "warning"),
}
TLS: dict[str, tuple[str, Any]] = {
    "tls_cert": ("c", Path("c")),
    "tls_key": ("k", Path("k")),
    "tls_ca": ("a", Path("a")),
}


def test_nothing_told_is_the_defaults() -> None:
    assert options() == Options()


def test_every_option_is_tried_here() -> None:
    assert {one.name for one in fields(Options)} == {*EACH, *TLS}


def test_each_option_is_a_flag() -> None:
    told = {**EACH, **TLS}
    flags = [part for name, (text, _) in told.items() for part in (_flag(name), text)]

    assert options(*flags) == Options(**{name: value for name, (_, value) in told.items()})


def test_each_option_is_an_environment_variable() -> None:
    told = {**EACH, **TLS}
    environment = {variable(name): text for name, (text, _) in told.items()}

    assert options(**environment) == Options(**{name: value for name, (_, value) in told.items()})


def test_a_flag_counts_before_its_variable() -> None:
    assert options("--workers", "5", SPOTRUN_WORKERS="6").workers == 5


def test_a_switch_needs_no_value() -> None:
    assert options("--restricted").restricted
    assert not options("--restricted=false", SPOTRUN_RESTRICTED="true").restricted


def test_verbose_is_a_level() -> None:
    assert options("-v").level == logging.DEBUG
    assert options().level == logging.INFO


def test_an_empty_variable_says_nothing() -> None:
    assert options(SPOTRUN_CONTEXT="", SPOTRUN_WORKERS="") == Options()


def test_what_kubernetes_says_of_a_service_is_no_option() -> None:
    # A Service named spotrun-agents puts this into each pod of its namespace.
    assert options(SPOTRUN_AGENTS_PORT="tcp://10.0.0.7:8443") == Options()


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("kubeconfig", "", "the value is empty: leave the option out instead"),
        ("namespace", "ML", "'ML' is no namespace: use lower-case letters"),
        ("watch_namespace", "a b", "'a b' is no namespace"),
        ("watch_namespace", "a" * 64, "is no namespace"),
        ("advertise", "192.0.2.7", "'192.0.2.7' is not HOST:PORT: write it like 192.0.2.7:8443"),
        ("advertise", "https://a:1", "is not HOST:PORT"),
        ("advertise", ":8443", "is not HOST:PORT"),
        ("advertise", "2001:db8::7:8443", "'2001:db8::7' is no host: use a name or an address"),
        ("advertise", "[a]:1", "does not appear to be an IPv4 or IPv6 address"),
        ("address", "a:0", "'0' is no port: use a number from 1 to 65535"),
        ("agents_host", "localhost", "does not appear to be an IPv4 or IPv6 address"),
        ("agents_port", "65536", "'65536' is no port"),
        ("metrics_port", "-1", "'-1' is no port"),
        ("aws_prices", "us-east-1,US East", "'US East' is no region: name some like us-east-1"),
        ("workers", "0", "'0' is not in its range: use a whole number, 1 to 1000"),
        ("lease_seconds", "2.5", "'2.5' is not in its range: use a whole number, 3 to 3600"),
        ("restricted", "yes", "'yes' is not allowed: use true or false"),
        ("log_format", "xml", "'xml' is not allowed: use text or json"),
        ("log_level", "loud", "'loud' is not allowed: use debug or info or warning or error"),
    ],
)
def test_wrong_values_are_refused_with_a_way_out(name: str, text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint.replace("[", r"\[")) as refused:
        options(f"{_flag(name)}={text}")
    assert str(refused.value).startswith(f"{_flag(name)}: ")

    if text:
        with pytest.raises(ValueError, match=f"^{variable(name)}: "):
            options(**{variable(name): text})


@pytest.mark.parametrize(
    "some", [{"tls_cert": Path("a")}, {"tls_cert": Path("a"), "tls_key": Path("b")}]
)
def test_a_certificate_comes_whole(some: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="go together: give all three, or none"):
        Options(**some)  # type: ignore[arg-type]


def test_each_server_has_its_port() -> None:
    with pytest.raises(ValueError, match=r"give each a port of its own \(now: 8080, 8080, 8081"):
        Options(agents_port=8080)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
