"""Settings that the operator puts into every worker; the same for all jobs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """The operator's address, its certificate authority, and how long workers may take to end."""

    server: str  # host:port
    ca_pem: str
    inject_image: str = ""  # it brings the package into images without it; empty: none does
    trainer_image: str = ""  # this one has the package
    restricted: bool = False  # whether pods must pass Pod Security's level `restricted`
    grace_seconds: int = 120  # from SIGTERM to SIGKILL: time for a last checkpoint
    toleration_seconds: int = 300  # of a silent node; the operator itself decides earlier
