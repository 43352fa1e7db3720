"""A process that speaks the format of Azure's list of retail prices, with few prices of our own.

Run as `python -m tests.integration.observe.azure_list`; it says on stdout where it listens. Regions
with other names than Azure's answer what no client likes.
"""

import json
import re
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from typing_extensions import override

from tests.integration.observe.price_server import PriceServer, serve

PAGE_SIZE = 2
A100 = "Standard_NC24ads_A100_v4"
_SERIES = "Virtual Machines NCads A100 v4 Series"


def _item(price: float, **changes: Any) -> dict[str, Any]:
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": price,
        "unitPrice": price,
        "armRegionName": "eastus",
        "location": "US East",
        "effectiveStartDate": "2025-03-01T00:00:00Z",
        "meterId": "00000000-0000-0000-0000-000000000000",
        "meterName": "NC24ads A100 v4",
        "productId": "DZH318Z08NRP",
        "skuId": "DZH318Z08NRP/000Z",
        "productName": f"{_SERIES} Linux",
        "skuName": "NC24ads A100 v4",
        "serviceName": "Virtual Machines",
        "serviceId": "DZH313Z7MMC8",
        "serviceFamily": "Compute",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": A100,
        **changes,
    }


ITEMS = (
    _item(4.1, effectiveStartDate="2024-01-01T00:00:00Z"),  # it has changed since
    _item(3.673),
    _item(5.1, effectiveStartDate="2099-01-01T00:00:00Z"),  # and will change
    _item(4.777, productName=f"{_SERIES} Windows"),
    _item(1.469200, skuName="NC24ads A100 v4 Spot", meterName="NC24ads A100 v4 Spot"),
    _item(0.7, skuName="NC24ads A100 v4 Low Priority"),
    _item(2.5, type="DevTestConsumption"),
    _item(20_000, type="Reservation", reservationTerm="1 Year"),
    _item(88.0, unitOfMeasure="1 Day"),
    _item(4.408, armRegionName="westeurope", location="EU West"),
    _item(0.0, armSkuName="Standard_Free", skuName="Free"),
    _item(-1.0, armSkuName="Standard_Free", skuName="Free"),
    _item(1.0, armSkuName="Standard_Disputed", skuName="Disputed"),
    _item(1.1, armSkuName="Standard_Disputed", skuName="Disputed"),
)


class _Desk(BaseHTTPRequestHandler):
    num_asked = 0

    def do_GET(self) -> None:
        type(self).num_asked += 1
        place = urlsplit(self.path)
        if place.path == "/asked":
            return self._say(200, json.dumps(type(self).num_asked - 1))
        query = parse_qs(place.query)
        asked = dict(re.findall(r"(\w+) eq '([^']*)'", query["$filter"][0]))
        odd = _ODD.get(asked["armRegionName"])
        if odd is not None:
            return self._say(*odd)
        start = int(query.get("$skip", ["0"])[0])
        found = [one for one in ITEMS if _fits(one, asked)]
        return self._say(200, _page(self.headers["Host"], query["$filter"][0], found, start))

    def _say(self, status: int, body: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _fits(item: dict[str, Any], asked: dict[str, str]) -> bool:
    """Whether Azure would show it; it takes no heed of `priceType` where that is not given."""
    fields = ("serviceName", "armRegionName", "armSkuName")
    return all(item[field] == asked[field] for field in fields)


def _page(host: str, asked: str, found: list[dict[str, Any]], start: int) -> str:
    end = start + PAGE_SIZE
    path = f"http://{host}/api/retail/prices?$filter={quote(asked)}&$skip={end}"
    page = found[start:end]
    return json.dumps(
        {
            "BillingCurrency": "USD",
            "CustomerEntityId": "Default",
            "CustomerEntityType": "Retail",
            "Items": page,
            "NextPageLink": path if end < len(found) else None,
            "Count": len(page),
        }
    )


_ODD: dict[str, tuple[int, str]] = {
    "sick": (503, "the service is unavailable"),
    "strange": (200, "<html>please log in</html>"),
    "huge": (200, json.dumps({"Items": [], "NextPageLink": "x" * 20_000_000})),
    "elsewhere": (200, json.dumps({"Items": [], "NextPageLink": "http://example.com/more"})),
}


class AzureList(PriceServer):
    """The process, for as long as a test needs it."""

    def __init__(self) -> None:
        super().__init__(__name__)

    @property
    def url(self) -> str:
        """The URL of its prices."""
        return f"http://{self.host}/api/retail/prices"


if __name__ == "__main__":
    serve(_Desk)
