"""The checkpoint of another job that a training begins from."""

from typing import Annotated

from pydantic import Field

from spotrun.api.field_types.bounded import DnsName
from spotrun.api.model import Model

_NAME = "^step-(0|[1-9][0-9]{0,15})[.]g(0|[1-9][0-9]{0,9})$"


class BeginFrom(Model):
    """The checkpoint of another job in this namespace, in the same volume or store."""

    job: DnsName = Field(
        description="The TrainingJob that saved the checkpoint. It may have ended or been deleted."
    )
    checkpoint: Annotated[str, Field(pattern=_NAME, max_length=40)] | None = Field(
        None,
        description="The checkpoint's name, such as step-300.g1, as in status.checkpoint.name of "
        "that job. Default: the newest complete checkpoint when this job begins. A running job "
        "deletes its older checkpoints: see checkpoint.keep.",
    )
