"""Names of kinds of objects, and the parts of objects that all kinds share."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol
from urllib.parse import quote

import msgspec


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object as the API server's paths name it."""

    group: str  # "" for the core group
    version: str
    plural: str

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The path of a collection, an object or a subresource."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/" + "/".join(parts)


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata that `kube` needs; extend it with what you need."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def version(self) -> int:
        """The resource version as a number: versions of one kind are comparable (KEP-5504)."""
        return int(self.resource_version)


class Object(Protocol):
    """An object with metadata: a msgspec Struct with the fields that are used."""

    @property
    def metadata(self) -> Meta:
        """The object's metadata."""


class Key(NamedTuple):
    """An object's name; cluster-scoped objects have the namespace ""."""

    namespace: str
    name: str
