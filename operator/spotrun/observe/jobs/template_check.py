"""A check whether a template has the structure of a pod, in the parts that are read here. Pure.

The API server stores templates unchecked, and refuses the pods that are created from a bad one. But
the operator reads a template before there is any pod: one with a list in place of a text must be
recognised, and must not break the operator's work for other jobs.
"""

from typing import Annotated, Any

import msgspec

from spotrun.api.spec.template import PodTemplate

Map = dict[str, Any] | None


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a template; its other fields are ignored."""


class _Expression(_Part, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Term(_Part, frozen=True):
    match_expressions: list[_Expression] | None = None


class _Required(_Part, frozen=True):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(_Part, frozen=True):
    required: _Required | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[dict[str, Any]] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class _Affinity(_Part, frozen=True):
    node_affinity: _NodeAffinity | None = None


class _Toleration(_Part, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _Given(_Part, frozen=True):
    name: str
    request: str | None = None


class _DeviceClaim(_Part, frozen=True):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _Resources(_Part, frozen=True):
    claims: list[_Given] | None = None
    limits: Map = None
    requests: Map = None


class _Variable(_Part, frozen=True):
    name: str


class _Mount(_Part, frozen=True):
    mount_path: str


class _Claim(_Part, frozen=True):
    claim_name: str
    read_only: bool | None = None


class _Volume(_Part, frozen=True):
    name: str
    persistent_volume_claim: _Claim | None = None


class _Container(_Part, frozen=True):
    env: list[_Variable] | None = None
    volume_mounts: list[_Mount] | None = None
    resources: _Resources | None = None
    security_context: Map = None
    termination_message_path: str | None = None


class _Pod(_Part, frozen=True):
    containers: list[_Container]
    init_containers: list[_Container] | None = None
    affinity: _Affinity | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[_Toleration] | None = None
    volumes: list[_Volume] | None = None
    resource_claims: list[_DeviceClaim] | None = None
    security_context: Map = None
    automount_service_account_token: bool | None = None
    termination_grace_period_seconds: Annotated[int, msgspec.Meta(ge=0)] | None = None


def wrong_type(template: PodTemplate) -> str | None:
    """Return which field of a template has a type that Kubernetes refuses; None if none has."""
    try:
        msgspec.convert(template.spec.manifest(), _Pod)
    except msgspec.ValidationError as error:
        return f"workers.template.spec: {error}"
    return None
