from spotrun.kube.resource import Key, Resource


class NoCaches:
    """Caches of which nothing is asked."""

    def last_version(self, resource: Resource) -> int:
        raise AssertionError("nobody asks")

    def version_of(self, resource: Resource, key: Key) -> int | None:
        raise AssertionError("nobody asks")

    def listed_at(self, resource: Resource) -> float:
        raise AssertionError("nobody asks")

    def moved_at(self, resource: Resource) -> float:
        raise AssertionError("nobody asks")
