"""Addresses of places in object stores."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

SCHEMES = ("s3", "gs", "az")
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
"""The variables that name another server than the cloud's own: such as one in the cluster, or a
test's."""


class Address(NamedTuple):
    """`s3://bucket/prefix`, `gs://bucket/prefix`, or `az://account/container/prefix`."""

    scheme: str
    account: str  # of Azure
    bucket: str
    prefix: str

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read an address; raises ValueError that says how to write one."""
        scheme, _, rest = text.partition("://")
        account, rest = rest.split("/", 1) if scheme == "az" and "/" in rest else ("", rest)
        bucket, _, prefix = rest.partition("/")
        parts = [one for one in prefix.split("/") if one]
        is_complete = bool(bucket) and (bool(account) or scheme != "az")
        if not is_complete or {".", ".."} & {*parts} or _has_more(account + bucket, text):
            raise ValueError(
                f"{without_secrets(text)} is not the address of a place in an object store: write "
                "s3://bucket/prefix, gs://bucket/prefix or az://account/container/prefix; "
                "credentials come from the environment, or from the identity of the pod"
            )
        return cls(scheme, account, bucket, "/".join(parts))

    def __str__(self) -> str:  # type: ignore[explicit-override]  # typing has it from 3.12 on
        parts = [one for one in (self.account, self.bucket, self.prefix) if one]
        return f"{self.scheme}://{'/'.join(parts)}"


def _has_more(names: str, text: str) -> bool:
    """Whether it contains credentials, a query or a fragment; a secret key may have slashes."""
    return bool(set("@:") & set(names) or set("?#") & set(text))


def without_secrets(text: str) -> str:
    """Return what a message may show of an address: no credentials, and no query."""
    return re.sub(r"(?s)[?].*", "?...", re.sub(r"(?s)//.*@", "//...@", text))


def endpoint_of(scheme: str, env: Mapping[str, str]) -> str:
    """Return the server that the environment names for a kind of store; empty if it names none."""
    return next((value for name in _ENDPOINTS[scheme] if (value := env.get(name))), "")


def is_address(where: str | Path) -> bool:
    """Whether it is a place in an object store."""
    scheme, separator, _ = str(where).partition("://")
    return bool(separator) and scheme in SCHEMES
