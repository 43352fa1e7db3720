"""The parts of GCP's machine types: GCP sells cores, memory and GPUs separately.

From https://cloud.google.com/compute/docs/gpus and .../general-purpose-machines. Other types get no
invented price: in the series N1, for example, GPUs are attached that the type does not name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """A machine type's parts; local disks are sold separately, and not priced here."""

    series: str
    cores: int
    gib: int
    gpus: int = 0
    gpu: str = ""  # in the words of GCP's prices


_L4, _A100, _A100_80 = "Nvidia L4", "Nvidia Tesla A100", "Nvidia Tesla A100 80GB"
_H100 = "Nvidia H100 80GB"

_WITH_GPUS: Mapping[str, Machine] = {
    "g2-standard-4": Machine("G2", 4, 16, 1, _L4),
    "g2-standard-8": Machine("G2", 8, 32, 1, _L4),
    "g2-standard-12": Machine("G2", 12, 48, 1, _L4),
    "g2-standard-16": Machine("G2", 16, 64, 1, _L4),
    "g2-standard-24": Machine("G2", 24, 96, 2, _L4),
    "g2-standard-32": Machine("G2", 32, 128, 1, _L4),
    "g2-standard-48": Machine("G2", 48, 192, 4, _L4),
    "g2-standard-96": Machine("G2", 96, 384, 8, _L4),
    "a2-highgpu-1g": Machine("A2", 12, 85, 1, _A100),
    "a2-highgpu-2g": Machine("A2", 24, 170, 2, _A100),
    "a2-highgpu-4g": Machine("A2", 48, 340, 4, _A100),
    "a2-highgpu-8g": Machine("A2", 96, 680, 8, _A100),
    "a2-megagpu-16g": Machine("A2", 96, 1360, 16, _A100),
    "a2-ultragpu-1g": Machine("A2", 12, 170, 1, _A100_80),
    "a2-ultragpu-2g": Machine("A2", 24, 340, 2, _A100_80),
    "a2-ultragpu-4g": Machine("A2", 48, 680, 4, _A100_80),
    "a2-ultragpu-8g": Machine("A2", 96, 1360, 8, _A100_80),
    "a3-highgpu-1g": Machine("A3", 26, 234, 1, _H100),
    "a3-highgpu-2g": Machine("A3", 52, 468, 2, _H100),
    "a3-highgpu-4g": Machine("A3", 104, 936, 4, _H100),
    "a3-highgpu-8g": Machine("A3", 208, 1872, 8, _H100),
}
_GIB_PER_CORE: Mapping[str, int] = {"standard": 4, "highmem": 8, "highcpu": 1}
_WITHOUT = re.compile(r"(e2|n2)-(standard|highmem|highcpu)-([1-9][0-9]{0,2})")


def machine_of(instance_type: str) -> Machine | None:
    """Return the parts of a machine type; None if they are not known."""
    known = _WITH_GPUS.get(instance_type)
    if known is not None:
        return known
    found = _WITHOUT.fullmatch(instance_type)
    if found is None:
        return None
    cores = int(found[3])
    return Machine(found[1].upper(), cores, cores * _GIB_PER_CORE[found[2]])


SERIES = frozenset({machine.series for machine in _WITH_GPUS.values()} | {"E2", "N2"})
GPUS = frozenset(machine.gpu for machine in _WITH_GPUS.values())
