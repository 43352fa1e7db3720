"""Recorded spot markets: one file is one pool, tick by tick.

Recordings come from many authors, so the reader relies only on the schema, and an error names the
file and the field.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

_MOST_TICKS = 10_000_000
_REGION = re.compile(r"(?P<aws>[a-z]+(-[a-z]+)+-\d+)[a-z]|(?P<gcp>[a-z]+(-[a-z]+)+\d+)-[a-z]")


class Kind(StrEnum):
    """The meaning of a recording's numbers."""

    AVAILABILITY = "availability"  # a probe asked for this many nodes and gave them back
    PREEMPTION = "preemption"  # nodes were kept; the number falls when some are taken away


@dataclass(frozen=True)
class Trace:
    """One recorded pool; a value is valid for the whole length of its tick."""

    name: str  # the name of the file
    zone: str
    region: str
    instance_type: str
    gpu: str
    gpus_per_node: int
    kind: Kind
    capacity_probed: int
    gap_seconds: float
    start: datetime | None
    available: tuple[int, ...]  # available nodes, 0 to capacity_probed
    spot_usd_per_hour: tuple[Decimal, ...] | Decimal | None  # one for each tick, or one for all
    on_demand_usd_per_hour: Decimal | None

    @property
    def seconds(self) -> float:
        """The length of the recording."""
        return len(self.available) * self.gap_seconds


def read(path: Path) -> Trace:
    """Read a recording; raises ValueError that names the file and the field."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no JSON object: one file is one recorded pool")  # noqa: TRY004
    return _Fields(path.name, content).trace()


def region_of(zone: str) -> str:
    """Return the region in a zone name of AWS or Google; for other names the name itself."""
    match = _REGION.fullmatch(zone)
    return (match["aws"] or match["gcp"]) if match is not None else zone


class _Fields:
    """The fields of one file."""

    def __init__(self, name: str, content: Mapping[str, Any]) -> None:
        self._name, self._content = name, content

    def trace(self) -> Trace:
        probed = self._whole("capacity_probed", least=1)
        zone = self._text("zone")
        available = self._available(probed)
        return Trace(
            name=self._name,
            zone=zone,
            region=region_of(zone),
            instance_type=self._text("instance_type"),
            gpu=self._text("gpu"),
            gpus_per_node=self._whole("gpus_per_node", least=0),
            kind=self._kind(),
            capacity_probed=probed,
            gap_seconds=self._gap_seconds(),
            start=self._start(),
            available=available,
            spot_usd_per_hour=self._spot_price(len(available)),
            on_demand_usd_per_hour=self._price_or_none("on_demand_price"),
        )

    def _available(self, probed: int) -> tuple[int, ...]:
        values = self._list("available")
        if not 0 < len(values) <= _MOST_TICKS:
            self._refuse("available", f"has {len(values)} ticks: it must have 1 to {_MOST_TICKS}")
        for tick, value in enumerate(values):
            if type(value) is not int or not 0 <= value <= probed:
                self._refuse(
                    f"available[{tick}]",
                    f"is {_shown(value)}, not a whole number from 0 to capacity_probed ({probed})",
                )
        return tuple(values)

    def _spot_price(self, ticks: int) -> tuple[Decimal, ...] | Decimal | None:
        if not isinstance(self._content.get("spot_price"), list):
            return self._price_or_none("spot_price")
        values = self._list("spot_price")
        if len(values) != ticks:
            self._refuse("spot_price", f"has {len(values)} prices, and `available` {ticks} ticks")
        return tuple(self._price(f"spot_price[{tick}]", one) for tick, one in enumerate(values))

    def _price_or_none(self, field: str) -> Decimal | None:
        value = self._content.get(field)
        return None if value is None else self._price(field, value)

    def _price(self, field: str, value: object) -> Decimal:
        is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= 1_000_000:  # type: ignore[operator]
            self._refuse(field, f"is {_shown(value)}, not a price in USD per hour")
        return Decimal(value)  # type: ignore[arg-type]

    def _gap_seconds(self) -> float:
        value = self._value("gap_seconds")
        is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
        if not is_number or not 1 <= value <= 86_400:
            self._refuse("gap_seconds", f"is {_shown(value)}, not a number from 1 to 86400")
        return float(value)

    def _start(self) -> datetime | None:
        value = self._content.get("start_utc")
        if value is None:
            return None
        try:
            moment = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            self._refuse("start_utc", f"is {_shown(value)}, not a time like 2023-02-15T22:08:16Z")
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)

    def _kind(self) -> Kind:
        value = self._value("kind")
        if value not in list(Kind):
            self._refuse("kind", f"is {_shown(value)}, not one of {', '.join(Kind)}")
        return Kind(value)

    def _text(self, field: str) -> str:
        value = self._value(field)
        if not isinstance(value, str) or not value:
            self._refuse(field, f"is {_shown(value)}, not a text")
        return value

    def _whole(self, field: str, *, least: int) -> int:
        value = self._value(field)
        if type(value) is not int or not least <= value <= 1_000_000:
            self._refuse(field, f"is {_shown(value)}, not a whole number of at least {least}")
        return value

    def _list(self, field: str) -> Sequence[Any]:
        value = self._value(field)
        if not isinstance(value, list):
            self._refuse(field, f"is {_shown(value)}, not a list")
        return value

    def _value(self, field: str) -> Any:  # noqa: ANN401 - it is JSON
        if field not in self._content:
            self._refuse(field, "is missing")
        return self._content[field]

    def _refuse(self, field: str, what: str) -> NoReturn:
        raise ValueError(f"{self._name}: {field} {what}")


def _shown(value: object) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return "null" if value is None else repr(str(value)[:40])
