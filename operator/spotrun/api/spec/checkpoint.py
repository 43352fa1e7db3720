"""Checkpoints: their place, their interval and their number."""

import re
from typing import Annotated

from pydantic import Field
from typing_extensions import override

from spotrun.api.field_types.amounts import PositiveAmount, Quantity
from spotrun.api.field_types.bounded import DnsName
from spotrun.api.field_types.text_values import AutoOrDuration, Text
from spotrun.api.model import Model, Rule
from spotrun.api.names import Choice
from spotrun.api.spec.begin_from import BeginFrom

_PATH = "(/[!%->@-~]*)?"
"""Printable characters, except those that begin a query or fragment or that a kubelet expands."""
_UPWARDS = "/[.][.]?(/|$)"
_Named = Annotated[str, Field(min_length=1, max_length=253)]


class ObjectStoreUri(Text):
    """A place in an object store."""

    __slots__ = ()
    pattern = (
        f"(s3|gs)://[a-z0-9][a-z0-9._-]{{1,61}}[a-z0-9]{_PATH}"
        f"|az://[a-z0-9]{{3,24}}/[a-z0-9][a-z0-9-]{{1,61}}[a-z0-9]{_PATH}"
    )
    max_length = 1024
    further_cel = f"!self.matches('{_UPWARDS}')"
    hint = (
        'must be a place in S3, Google Cloud Storage or Azure, like "s3://bucket/prefix", '
        '"gs://bucket/prefix" or "az://account/container/prefix", without "..", "?" and "$"; '
        "credentials come from the pod, and for a directory use checkpoint.volume"
    )

    @override
    def holds(self) -> bool:
        return re.search(_UPWARDS, self) is None

    @override
    def shown(self) -> str:
        return repr(re.sub(r"(?s)[?].*", "?...", re.sub(r"(?s)//.*@", "//...@", self)))


class PersistentVolumeClaim(Model):
    """A claim in the job's namespace."""

    claim_name: DnsName = Field(
        description="The claim's name. It must be ReadWriteMany when workers.max is above 1."
    )


class Nfs(Model):
    """A directory that an NFS server exports."""

    server: _Named = Field(description="The server's host name or address.")
    path: Annotated[str, Field(min_length=1, max_length=4096)] = Field(
        description="The exported directory, an absolute path."
    )

    rules = (
        Rule(
            cel="self.path.startsWith('/')",
            message='path must be absolute, like "/exports/checkpoints"',
            holds=lambda n: n.path.startswith("/"),
        ),
    )


class SecretName(Model):
    """A secret in the job's namespace."""

    name: DnsName = Field(description="The secret's name.")


class Csi(Model):
    """A volume that a CSI driver provides with the pod."""

    driver: _Named = Field(description="The driver's name, as `kubectl get csidrivers` shows it.")
    fs_type: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="The file system, e.g. ext4. Default: the driver's own."
    )
    volume_attributes: Annotated[dict[str, str], Field(max_length=64)] | None = Field(
        None, description="Settings for the driver; its documentation says which. Default: none."
    )
    node_publish_secret_ref: SecretName | None = Field(
        None, description="A secret that the driver needs to mount the volume. Default: none."
    )


class Medium(Choice):
    """The storage of an emptyDir."""

    DISK = "", "the node's disk"
    MEMORY = "Memory", "the node's memory, counted as the worker's"


class EmptyDir(Model):
    """A directory that is deleted with its pod."""

    medium: Medium | None = Field(
        None, description='The storage: "" for the node\'s disk, which is the default, or Memory.'
    )
    size_limit: Quantity | None = Field(
        None, description="The maximum size, e.g. 20Gi. Default: what the node has."
    )


class Volume(Model):
    """A volume of exactly one kind."""

    persistent_volume_claim: PersistentVolumeClaim | None = Field(
        None, description="A claim in the job's namespace, shared by all workers."
    )
    nfs: Nfs | None = Field(None, description="A directory that an NFS server exports.")
    csi: Csi | None = Field(None, description="A volume that a CSI driver provides with the pod.")
    empty_dir: EmptyDir | None = Field(
        None,
        description="A directory that is deleted with its pod. It is useful for restarts on the "
        "same worker and for tests, but gives no protection against a lost node.",
    )

    rules = (
        Rule(
            cel="[has(self.persistentVolumeClaim), has(self.nfs), has(self.csi), "
            "has(self.emptyDir)]"
            ".exists_one(given, given)",
            message="volume must have exactly one of persistentVolumeClaim, nfs, csi and emptyDir",
            holds=lambda v: len(v.manifest()) == 1,
        ),
    )


class LocalTier(Model):
    """A first tier: the newest steps in the workers' own memory or disks, each on two nodes."""

    medium: Medium = Field(
        Medium.MEMORY,
        description="Default Memory, which counts as the worker's memory. An empty string means "
        "the node's disk.",
    )
    size_limit: Quantity | None = Field(
        None,
        description="The maximum size on a worker, e.g. 20Gi. The tier needs four times a "
        "worker's part of the state: two steps, and the same for a neighbour. Default: what the "
        "node has.",
    )
    every: AutoOrDuration = Field(
        AutoOrDuration("Auto"),
        description="Default Auto: the interval that pays off, given the measured cost of such a "
        "save. Or a duration, e.g. 30s.",
    )


class Checkpoint(Model):
    """The place of checkpoints, and the interval between them."""

    volume: Volume | None = Field(
        None,
        description="A volume that every worker mounts. Each job saves in its own folder there, "
        "namespace/name. Give either volume or uri.",
    )
    uri: ObjectStoreUri | None = Field(
        None,
        description="A place in an object store: s3://bucket/prefix of any store that speaks S3, "
        "gs://bucket/prefix or az://account/container/prefix. Each job saves below namespace/name "
        "there. Workers get access through serviceAccountName or envFrom of the template. Give "
        "either uri or volume.",
    )
    every: AutoOrDuration = Field(
        AutoOrDuration("Auto"),
        description="Default Auto: the interval that pays off, given the measured interruptions. "
        "Or a duration, e.g. 10m.",
    )
    keep: Annotated[int, Field(ge=1, le=1000)] = Field(
        3, description="Default 3. The number of checkpoints to keep; older ones are deleted."
    )

    begin_from: BeginFrom | None = Field(
        None,
        description="A checkpoint of another job from which this job begins while it has none of "
        "its own. Model, optimizer, step and position in the data are restored. Optimizer "
        "settings that the script gives differently, such as the learning rate, replace the "
        "restored ones. Only for scripts with Run. Default: none.",
    )

    local: LocalTier | None = Field(
        None,
        description="Also keeps the newest steps in the workers' memory or on their disks, each "
        "part on two nodes. If one node is lost, a start of all processes then continues from "
        "seconds before the loss. Only for scripts with Run. Default: none.",
    )

    budget_usd: PositiveAmount | None = Field(
        None,
        description="The maximum cost of the store of uri per month, in USD: stored bytes and "
        "requests. Within it the operator chooses the interval (if every is Auto) and the number "
        "kept (at most keep) by their cost and the expected cost of losses; status.saving shows "
        "the choice. If no choice is cheap enough, the training still continues and saves. "
        "Default: no limit.",
    )

    rules = (
        Rule(
            cel="!has(self.budgetUsd) || has(self.uri)",
            message="checkpoint.budgetUsd limits the cost of the store of uri: give uri, or leave "
            "budgetUsd out",
            holds=lambda c: c.budget_usd is None or c.uri is not None,
        ),
        Rule(
            cel="!has(self.beginFrom) || !has(self.volume) || !has(self.volume.emptyDir)",
            message="checkpoint.beginFrom needs a place that both jobs reach: give "
            "checkpoint.volume with persistentVolumeClaim, nfs or csi, or checkpoint.uri",
            holds=lambda c: c.begin_from is None or c.outlives_pods or c.volume is None,
        ),
        Rule(
            cel="has(self.volume) != has(self.uri)",
            message="checkpoint needs exactly one place: give volume or uri",
            holds=lambda c: (c.volume is None) != (c.uri is None),
        ),
    )

    @property
    def outlives_pods(self) -> bool:
        """Whether checkpoints still exist when all pods are gone."""
        return self.uri is not None or (self.volume is not None and self.volume.empty_dir is None)
