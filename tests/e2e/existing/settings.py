"""Settings of people for a cluster of theirs that the tests are to use."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.e2e.kind.machine import SetupError

_NEEDED = ("OPERATOR_IMAGE", "TRAINER_IMAGE", "STORAGE_CLASS")


@dataclass(frozen=True)
class Settings:
    """Images that its nodes can pull, and a storage class whose volumes all nodes can share."""

    operator_image: str
    trainer_image: str
    storage_class: str
    keep: bool  # the operator stays
    yes: bool  # nobody is asked


def read(environment: Mapping[str, str]) -> Settings:
    """Read them from environment variables; raises `SetupError` with those that are missing."""
    missing = [name for name in _NEEDED if not environment.get(name)]
    if missing:
        raise SetupError(
            f"CLUSTER=existing also needs {' and '.join(missing)}: "
            f"make e2e CLUSTER=existing {' '.join(f'{name}=...' for name in _NEEDED)}; "
            "tests/e2e/README.md says more"
        )
    operator_image, trainer_image, storage_class = (environment[name] for name in _NEEDED)
    return Settings(
        operator_image,
        trainer_image,
        storage_class,
        keep=bool(environment.get("KEEP")),
        yes=bool(environment.get("YES")),
    )
