"""Conversion of bills to the text of a ConfigMap and back; a text too long lists fewer jobs."""

import json
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from spotrun.api.field_types.text_values import Time
from spotrun.money.units import UsdPerHour
from spotrun.policies.cost.billing.lines import JobLine, Standing
from spotrun.policies.cost.billing.month_bill import (
    MonthBill,
    OtherLine,
    digest_of,
    fold,
    foldable,
    merged_others,
)
from spotrun.policies.cost.billing.months import Month
from spotrun.policies.cost.billing.parts import Part

DATA_KEY = "bill.json"
"""The key of the text in the ConfigMap."""
MOST_BYTES = 200_000
"""etcd accepts 1.5 MB, and a whole bill is written every few minutes."""
_AFTER_FOLDING = 0.8
"""A bill that was too long is made shorter than needed, so that it has room for the next jobs."""
_MOST_OTHERS = 400
_MOST_DIGESTS = 4_000
"""The digests of this many jobs take 60 kB."""
_VERSION = 1


def bill_name(namespace: str, month: Month) -> str:
    """Return the name of the ConfigMap, in the operator's namespace."""
    return f"spotrun-bill.{namespace}.{month}"


def write(bill: MonthBill) -> str:
    """Return a bill as text."""
    head = {
        "version": _VERSION,
        "namespace": bill.namespace,
        "month": bill.month,
        "unit": "0.0001 USD",
        "folded": sorted(bill.folded),
        "others": [
            [dict(key.labels), *key.part, units] for key, units in sorted(bill.others.items())
        ],
    }
    jobs = sorted(bill.jobs.values(), key=lambda line: (line.as_of, line.uid))
    # One line of text for each job: easy to read in `kubectl get -o yaml`, and to compare.
    listed = ",\n".join(_compact(_job(line)) for line in jobs)
    return f'{_compact(head)[:-1]},"jobs":[\n{listed}\n]}}\n'


def read(text: str) -> MonthBill:
    """Read a bill; raises ValueError if the text is not a bill."""
    try:
        data = json.loads(text)
        if data["version"] != _VERSION:
            raise ValueError(f"its version is {data['version']}, and only {_VERSION} is known")
        lines = [_line(data["month"], one) for one in data["jobs"]]
        others = {
            OtherLine(tuple(sorted(labels.items())), Part(category, capacity, pool)): int(units)
            for labels, category, capacity, pool, units in data["others"]
        }
        return MonthBill(
            namespace=data["namespace"],
            month=data["month"],
            jobs={line.uid: line for line in lines},
            others=others,
            folded=frozenset(data["folded"]),
        )
    except (KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def fitted(bill: MonthBill, live: Collection[str], most_bytes: int = MOST_BYTES) -> MonthBill:
    """Return the bill with fewer jobs listed if its text is too long; its sum stays.

    Jobs whose cost may still grow are always listed. `live` are the jobs whose objects exist.
    """
    present = {digest_of(uid) for uid in live}
    size = len(write(bill))
    if size <= most_bytes:
        return bill
    bill = replace(bill, folded=bill.folded & present)
    excess, chosen = size - most_bytes * _AFTER_FOLDING, list[str]()
    room = _MOST_DIGESTS - len(bill.folded)
    for uid in foldable(bill):
        if excess <= 0:
            break
        if uid in live and (room := room - 1) < 0:
            continue
        chosen.append(uid)
        excess -= len(_compact(_job(bill.jobs[uid]))) + 2
    return merged_others(fold(bill, chosen, live), _MOST_OTHERS)


def _compact(data: object) -> str:
    return json.dumps(data, separators=(",", ":"))


def _job(line: JobLine) -> dict[str, Any]:
    parts = sorted({*line.opening, *line.total})
    amounts = [[*part, line.opening.get(part, 0), line.total.get(part, 0)] for part in parts]
    return {
        "name": line.name,
        "uid": line.uid,
        "labels": dict(line.labels),
        "standing": line.standing.value,
        "asOf": str(Time.of(line.as_of)),
        "usdPerHour": str(line.usd_per_hour.amount),
        "parts": amounts,
    }


def _line(month: str, data: dict[str, Any]) -> JobLine:
    opening, total = dict[Part, int](), dict[Part, int]()
    for category, capacity, pool, before, now in data["parts"]:
        part = Part(category, capacity, pool)
        _keep(opening, part, int(before))
        _keep(total, part, int(now))
    return JobLine(
        month=month,
        uid=data["uid"],
        name=data["name"],
        as_of=datetime.fromisoformat(data["asOf"]),
        opening=opening,
        total=total,
        usd_per_hour=UsdPerHour(Decimal(data["usdPerHour"])),
        standing=Standing(data["standing"]),
        labels=data["labels"],
    )


def _keep(amounts: dict[Part, int], part: Part, units: int) -> None:
    if units:
        amounts[part] = units
