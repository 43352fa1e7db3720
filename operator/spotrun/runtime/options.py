"""The flags of `spotrun operator`; each has an environment variable, for manifests and charts.

A flag takes precedence over its variable, and the variable over the default. Only the standard
library is used, so that `--help` needs nothing else.
"""

import argparse
import ipaddress
import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
OWN_NAMESPACE = "spotrun-system"

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_LEVELS = {name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error")}


class HostPort(NamedTuple):
    """A host and a port to connect to."""

    host: str
    port: int

    @property
    def text(self) -> str:
        """The text form, host:port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _text(value: str) -> str:
    if not value:
        raise ValueError("the value is empty: leave the option out instead")
    return value


def _file(value: str) -> Path:
    return Path(_text(value)).expanduser()


def _namespace(value: str) -> str:
    if not _LABEL.fullmatch(value):
        raise ValueError(
            f"{value!r} is no namespace: use lower-case letters, digits and '-', as in ml-team"
        )
    return value


def _port(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 65_535:
        raise ValueError(f"{value!r} is no port: use a number from 1 to 65535")
    return int(value)


def _host_port(value: str) -> HostPort:
    host, colon, port = value.rpartition(":")
    if "://" in value or not colon or not host:
        raise ValueError(
            f"{value!r} is not HOST:PORT: write it like 192.0.2.7:8443, [2001:db8::7]:8443"
        )
    if host.startswith("[") and host.endswith("]"):
        return HostPort(_address(host[1:-1]), _port(port))
    if not _HOST.fullmatch(host):
        raise ValueError(f"{host!r} is no host: use a name or an address, IPv6 in brackets")
    return HostPort(host, _port(port))


def _address(value: str) -> str:
    return str(ipaddress.ip_address(value))


def _bind(value: str) -> str:
    return _address(value) if value else ""


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        if not value.isdecimal() or not least <= int(value) <= most:
            raise ValueError(
                f"{value!r} is not in its range: use a whole number, {least} to {most}"
            )
        return int(value)

    return read


def _yes_or_no(value: str) -> bool:
    if value.lower() not in {"true", "false"}:
        raise ValueError(f"{value!r} is not allowed: use true or false")
    return value.lower() == "true"


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in choices:
            raise ValueError(f"{value!r} is not allowed: use {' or '.join(choices)}")
        return value

    return read


def _regions(value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    for name in names:
        if not _LABEL.fullmatch(name):
            raise ValueError(f"{name!r} is no region: name some like us-east-1,eu-west-1")
    return names


def _flag(read: Callable[[str], object], metavar: str, text: str) -> dict[str, Any]:
    return {"read": read, "metavar": metavar, "help": text}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one replica of the operator."""

    kubeconfig: Path | None = field(
        default=None,
        metadata=_flag(
            _file,
            "FILE",
            "the kubeconfig of the cluster; default: in a pod the pod's service account, elsewhere "
            "KUBECONFIG or ~/.kube/config",
        ),
    )
    context: str | None = field(
        default=None,
        metadata=_flag(_text, "NAME", "the context of the kubeconfig; default: its current one"),
    )
    namespace: str | None = field(
        default=None,
        metadata=_flag(
            _namespace,
            "NAME",
            "the operator's own namespace, which holds its Lease and its Secret; default: the "
            f"pod's, elsewhere {OWN_NAMESPACE}",
        ),
    )
    watch_namespace: str | None = field(
        default=None,
        metadata=_flag(
            _namespace, "NAME", "serve only the TrainingJobs of this namespace; default: of all"
        ),
    )
    advertise: HostPort | None = field(
        default=None,
        metadata=_flag(
            _host_port,
            "HOST:PORT",
            "the address of the operator that is written into workers' pods: it must lead to any "
            "replica, now and later; required in a pod, elsewhere the default is this replica's "
            "--address",
        ),
    )
    address: HostPort | None = field(
        default=None,
        metadata=_flag(
            _host_port,
            "HOST:PORT",
            "the address at which agents reach this replica: a standby sends them to the leader's; "
            "default: POD_IP, or the address from which this machine reaches the API server, with "
            "--agents-port",
        ),
    )
    agents_host: str = field(
        default="", metadata=_flag(_bind, "IP", "serve agents on this address; default: all")
    )
    agents_port: int = field(
        default=8443, metadata=_flag(_port, "PORT", "serve agents (TLS) on this port")
    )
    metrics_host: str = field(
        default="",
        metadata=_flag(_bind, "IP", "serve metrics and probes on this address; default: all"),
    )
    metrics_port: int = field(
        default=8080, metadata=_flag(_port, "PORT", "serve /metrics and /readyz on this port")
    )
    liveness_port: int = field(
        default=8081, metadata=_flag(_port, "PORT", "serve /healthz on this port")
    )
    tls_cert: Path | None = field(
        default=None,
        metadata=_flag(
            _file,
            "FILE",
            "a certificate chain for the name sync.spotrun.dev, renewed outside the operator (for "
            "example by cert-manager), with --tls-key and --tls-ca; default: the operator "
            "creates its own authority in a Secret",
        ),
    )
    tls_key: Path | None = field(
        default=None, metadata=_flag(_file, "FILE", "the certificate's key")
    )
    tls_ca: Path | None = field(
        default=None, metadata=_flag(_file, "FILE", "the authorities that agents have to trust")
    )
    inject_image: str | None = field(
        default=None,
        metadata=_flag(
            _text,
            "IMAGE",
            "an image with spotrun_trainer, such as the operator's own: an init container copies "
            "spotrun_trainer from it into workers, so that their images need not contain it; "
            "default: training images contain it",
        ),
    )
    trainer_image: str | None = field(
        default=None,
        metadata=_flag(
            _text,
            "IMAGE",
            "the installation's own image for training: spotrun_trainer is not copied into it",
        ),
    )
    restricted: bool = field(
        default=False,
        metadata=_flag(
            _yes_or_no,
            "true|false",
            "create workers that namespaces with the Pod Security level restricted accept: not as "
            "root, without capabilities",
        ),
    )
    kueue: bool = field(
        default=False,
        metadata=_flag(
            _yes_or_no,
            "true|false",
            "let Kueue admit the workers of jobs that name a queue; without this flag, or without "
            "Kueue's API, these jobs wait",
        ),
    )
    kueue_priority_boost: int = field(
        default=0,
        metadata=_flag(
            _whole(0, 1_000),
            "N",
            "the most that the price of an interruption may add to a job's priority in its Kueue "
            "queue; needs Kueue's feature gate PriorityBoost; your priorities have to be further "
            "apart than this number",
        ),
    )
    preempt_across_namespaces: bool = field(
        default=False,
        metadata=_flag(
            _yes_or_no,
            "true|false",
            "let jobs with placement.preempts also take workers from jobs of other namespaces: "
            "everybody who may create a job can then give it a priority above all others",
        ),
    )
    price_table: str | None = field(
        default=None,
        metadata=_flag(
            _text,
            "NAME",
            "a ConfigMap in the operator's own namespace whose entries are price tables (CSV): "
            "they take precedence over the built-in ones; default: none",
        ),
    )
    aws_prices: tuple[str, ...] | None = field(
        default=None,
        metadata=_flag(
            _regions,
            "REGION,...",
            "ask AWS for the prices of nodes in these regions, spot and on demand: they take "
            "precedence over the built-in ones; needs spotrun[aws] and a role that allows "
            "ec2:DescribeSpotPriceHistory and pricing:GetProducts; default: AWS is not asked",
        ),
    )
    azure_prices: tuple[str, ...] | None = field(
        default=None,
        metadata=_flag(
            _regions,
            "REGION,...",
            "ask Azure's public price list, which needs no key, for the prices of nodes in these "
            "regions, spot and on demand: they take precedence over the built-in ones; default: "
            "Azure is not asked",
        ),
    )
    gcp_prices: tuple[str, ...] | None = field(
        default=None,
        metadata=_flag(
            _regions,
            "REGION,...",
            "ask the Cloud Billing catalog of GCP for the prices of nodes in these regions, spot "
            "and on demand, with the identity that the operator has in GKE: they take precedence "
            "over the built-in ones; default: GCP is not asked",
        ),
    )
    workers: int = field(
        default=64,
        metadata=_flag(_whole(1, 1_000), "N", "number of jobs that are worked on at once"),
    )
    lease_seconds: int = field(
        default=15,
        metadata=_flag(
            _whole(3, 3_600),
            "N",
            "seconds without a renewal of its Lease after which the leader is replaced",
        ),
    )
    log_format: Literal["text", "json"] = field(
        default="text",
        metadata=_flag(
            _one_of("text", "json"), "text|json", "text for people, or JSON for machines"
        ),
    )
    log_level: str = field(
        default="info", metadata=_flag(_one_of(*_LEVELS), "LEVEL", f"one of {', '.join(_LEVELS)}")
    )

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        given = [self.tls_cert, self.tls_key, self.tls_ca]
        if any(given) and not all(given):
            raise ValueError(
                "--tls-cert, --tls-key and --tls-ca go together: give all three, or none of them "
                "if the operator should create its own authority"
            )
        ports = [self.agents_port, self.metrics_port, self.liveness_port]
        if len(set(ports)) < len(ports):
            raise ValueError(
                "--agents-port, --metrics-port and --liveness-port are three servers: give each "
                f"a port of its own (now: {', '.join(map(str, ports))})"
            )

    @property
    def level(self) -> int:
        """The log level as a number of `logging`."""
        return int(_LEVELS[self.log_level])


def read(given: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Options:
    """Return the options of a command line and its environment; ValueError says what to do."""
    chosen: dict[str, object] = {}
    for one in fields(Options):
        name, value = flag(one.name), getattr(given, one.name)
        if value is None:
            name, value = variable(one.name), environment.get(variable(one.name), "")
            if not value or _is_a_service_link(value):
                continue  # charts also write variables without a value
        try:
            chosen[one.name] = one.metadata["read"](value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return Options(**chosen)  # type: ignore[arg-type] # each was read by its own flag


def read_environment(environment: Mapping[str, str] = os.environ) -> Options:
    """Return the options from the environment alone; raises ValueError that says what to do."""
    return read(
        argparse.Namespace(**dict.fromkeys(one.name for one in fields(Options))), environment
    )


def variable(field_name: str) -> str:
    """Return the environment variable of an option."""
    return f"SPOTRUN_{field_name.upper()}"


def flag(field_name: str) -> str:
    """Return the flag of an option."""
    return f"--{field_name.replace('_', '-')}"


def _is_a_service_link(value: str) -> bool:
    """Whether Kubernetes set it for a Service `spotrun-agents`: SPOTRUN_AGENTS_PORT=tcp://..."""
    return value.startswith(("tcp://", "udp://", "sctp://"))
