"""The user's pod template: only fields that rules here check have types; others are kept."""

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from spotrun.api.field_types.bounded import DnsLabel
from spotrun.api.model import Model, Rule
from spotrun.api.names import GROUP

_RESERVED = f"{GROUP}/"
_Metadata = Annotated[dict[str, str], Field(max_length=128)]
_Arguments = tuple[str, ...]

# Kubernetes' own schema of a pod is larger than all schemas here; it checks the rest when pods are
# created.
_PASS_THROUGH = ConfigDict(extra="allow")

TRAINER = "trainer"


class TemplateMetadata(Model):
    """Labels and annotations for every worker's pod."""

    labels: _Metadata | None = Field(
        None, description="Labels put on every worker's pod, in addition to those of the operator."
    )
    annotations: _Metadata | None = Field(
        None,
        description="Annotations put on every worker's pod, in addition to those of the operator.",
    )

    rules = (
        Rule(
            cel=f"!has(self.labels) || self.labels.all(k, !k.startsWith('{_RESERVED}'))",
            message=f"labels under {_RESERVED} belong to the operator: choose another prefix",
            holds=lambda m: not any(k.startswith(_RESERVED) for k in m.labels or ()),
        ),
        Rule(
            cel=f"!has(self.annotations) || self.annotations.all(k, !k.startsWith('{_RESERVED}'))",
            message=f"annotations under {_RESERVED} belong to the operator: choose another prefix",
            holds=lambda m: not any(k.startswith(_RESERVED) for k in m.annotations or ()),
        ),
    )


class Container(Model):
    """A container of the worker's pod; every field of a Kubernetes container may be given."""

    model_config: ClassVar[ConfigDict] = _PASS_THROUGH

    name: DnsLabel = Field(
        description="The container's name. The container that trains is called `trainer`, unless "
        "it is the only one."
    )
    image: Annotated[str, Field(min_length=1, max_length=1024)] = Field(
        description="The image. The image of the container that trains needs Python and PyTorch; "
        "the operator adds spotrun_trainer, unless workers.inject is Never."
    )
    command: Annotated[_Arguments, Field(max_length=256)] | None = Field(
        None,
        description="The program of a side container. Not allowed for the container that trains, "
        "where the operator runs torchrun.",
    )
    args: Annotated[_Arguments, Field(max_length=1024)] | None = Field(
        None,
        description="For the container that trains: the script and its arguments, which the "
        "operator gives to torchrun.",
    )


class PodSpec(Model):
    """The pod spec of a worker; every field of a Kubernetes pod spec may be given."""

    model_config: ClassVar[ConfigDict] = _PASS_THROUGH

    containers: Annotated[tuple[Container, ...], Field(min_length=1, max_length=16)] = Field(
        description="The containers of a worker: the one that trains, and any side containers.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    )
    restart_policy: Annotated[str, Field(max_length=32)] | None = Field(
        None, description="Never, or left out. A worker that has ended is replaced, not restarted."
    )

    rules = (
        Rule(
            cel="self.containers.all(a, self.containers.exists_one(b, a.name == b.name))",
            message="containers must have different names: rename one of them",
            holds=lambda s: len({c.name for c in s.containers}) == len(s.containers),
        ),
        Rule(
            cel=f"self.containers.size() == 1 || self.containers.exists(c, c.name == '{TRAINER}')",
            message="with several containers it must be clear which one trains: "
            f"call that one {TRAINER}",
            holds=lambda s: s.trainer is not None,
        ),
        Rule(
            cel="self.containers.all(c, !has(c.command) || c.command.size() == 0"
            f" || (c.name != '{TRAINER}' && self.containers.size() > 1))",
            message="the container that trains takes no command, because the operator runs "
            "torchrun: put the script and its arguments in args",
            holds=lambda s: not (s.trainer and s.trainer.command),
        ),
        Rule(
            cel="!has(self.restartPolicy) || self.restartPolicy == 'Never'",
            message="restartPolicy must be Never or left out: a worker that ended is replaced, "
            "and failures.maxRestarts says how often",
            holds=lambda s: s.restart_policy in (None, "Never"),
        ),
    )

    @property
    def trainer(self) -> Container | None:
        """The container that trains; None only if the rules are broken."""
        if len(self.containers) == 1:
            return self.containers[0]
        return next((c for c in self.containers if c.name == TRAINER), None)


class PodTemplate(Model):
    """The template that every worker is made from."""

    model_config: ClassVar[ConfigDict] = _PASS_THROUGH

    metadata: TemplateMetadata | None = Field(
        None,
        description="Labels and annotations for every worker's pod; other fields are ignored.",
    )
    spec: PodSpec = Field(
        description="A Kubernetes pod spec. The operator adds what a worker needs: tolerations, "
        "affinity, an in-memory /dev/shm, a grace period and a token."
    )
