"""Charges as rows of FOCUS 1.0, the FinOps specification of billing data. Pure.

https://focus.finops.org/focus-specification/v1-0/
"""

import json
from collections.abc import Mapping
from datetime import datetime

from spotrun.api.capacitypool import Capacity
from spotrun.api.field_types.text_values import Time
from spotrun.cli.report.bills.charges import Charge
from spotrun.policies.cost.billing.months import begin_of, end_of, month_of
from spotrun.policies.cost.billing.parts import Category, usd_of

_ISSUER = "spotrun"
_PRICING = {
    Capacity.SPOT.value: "Dynamic",
    Capacity.ON_DEMAND.value: "Standard",
    Capacity.RESERVED.value: "Committed",
}
_SERVICES = {
    Category.STORAGE: ("Storage", "Checkpoints in object stores"),
    Category.TRANSFER: ("Networking", "Traffic between zones"),
}
_TRAINING = ("AI and Machine Learning", "Training")
_DESCRIPTIONS = {
    Category.COMPUTE: "shares of nodes",
    Category.LOST_WORK: "shares of nodes for steps done twice and for stalls",
    Category.IDLE: "parts of nodes that nobody used",
    Category.STORAGE: "checkpoints in an object store",
    Category.TRANSFER: "traffic of gradients between zones, estimated",
}
_UNKNOWN = (
    "AvailabilityZone",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedUnitPrice",
    "ListUnitPrice",
    "PricingQuantity",
    "PricingUnit",
    "RegionId",
    "RegionName",
    "SkuId",
    "SkuPriceId",
)
"""A bill has sums and no quantities; FOCUS lets all of these be null."""


def focus_row(charge: Charge) -> Mapping[str, str]:
    """Return a charge under the column ids of FOCUS; what is not known is empty."""
    category, capacity = Category(charge.part.category), charge.part.capacity
    cost = f"{usd_of(charge.units):f}"
    month = month_of(charge.begin)
    service, name = _SERVICES.get(category, _TRAINING)
    row = {
        "BilledCost": cost,
        "BillingAccountId": _ISSUER,
        "BillingAccountName": _ISSUER,
        "BillingCurrency": "USD",
        "BillingPeriodEnd": _time(end_of(month)),
        "BillingPeriodStart": _time(begin_of(month)),
        "ChargeCategory": "Usage",
        "ChargeClass": "",
        "ChargeDescription": f"{charge.job}: {_DESCRIPTIONS[category]}",
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": _time(charge.end),
        "ChargePeriodStart": _time(charge.begin),
        "ContractedCost": cost,
        "EffectiveCost": cost,
        "InvoiceIssuerName": _ISSUER,
        "ListCost": cost,
        "PricingCategory": _PRICING.get(capacity, "Other"),
        "ProviderName": _ISSUER,
        "PublisherName": _ISSUER,
        "ResourceId": charge.uid,
        "ResourceName": charge.job,
        "ResourceType": "TrainingJob",
        "ServiceCategory": service,
        "ServiceName": name,
        "SubAccountId": charge.namespace,
        "SubAccountName": charge.namespace,
        "Tags": json.dumps(dict(charge.labels), sort_keys=True),
        "x_CapacityType": capacity,
        "x_Category": category.value,
        "x_Pool": charge.part.pool,
    }
    return dict(sorted({**row, **dict.fromkeys(_UNKNOWN, "")}.items()))


def _time(moment: datetime) -> str:
    return str(Time.of(moment.replace(microsecond=0)))
