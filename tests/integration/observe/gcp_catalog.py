"""A process that speaks the formats of GCP's metadata server and of its price catalog.

Run as `python -m tests.integration.observe.gcp_catalog`; it says on stdout where it listens. The
prices in it are our own.
"""

import json
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

from tests.integration.observe.price_server import PriceServer, serve

TOKEN = "ya29.of-the-pod"  # noqa: S105 - played
PAGE_SIZE = 4


def _sku(description: str, usd: str, usage: str = "OnDemand", **changes: Any) -> dict[str, Any]:
    whole, _, part = usd.partition(".")
    price = {"currencyCode": "USD", "units": whole, "nanos": int(part.ljust(9, "0"))}
    unit = "GiBy.h" if " Ram " in description else "h"
    expression = {
        "usageUnit": changes.pop("unit", unit),
        "displayQuantity": 1,
        "tieredRates": [{"startUsageAmount": 0, "unitPrice": price}],
    }
    return {
        "name": "services/6F81-5844-456A/skus/0000-0000-0000",
        "skuId": "0000-0000-0000",
        "description": description,
        "category": {
            "serviceDisplayName": "Compute Engine",
            "resourceFamily": "Compute",
            "resourceGroup": "CPU",
            "usageType": usage,
        },
        "serviceRegions": ["us-central1", "us-east1"],
        "pricingInfo": [{"effectiveTime": "2026-03-01T00:00:00Z", "pricingExpression": expression}],
        "serviceProviderName": "Google",
        **changes,
    }


_SPOT = "Preemptible"
_EUROPE: dict[str, Any] = {"serviceRegions": ["europe-west4"]}
SKUS = (
    _sku("A2 Instance Core running in Americas", "0.031611"),
    _sku("A2 Instance Ram running in Americas", "0.004237"),
    _sku("Nvidia Tesla A100 GPU running in Americas", "2.933908"),
    _sku("Nvidia Tesla A100 80GB GPU running in Americas", "3.927"),
    _sku("Spot Preemptible A2 Instance Core running in Americas", "0.0126", _SPOT),
    _sku("Spot Preemptible A2 Instance Ram running in Americas", "0.0017", _SPOT),
    _sku(
        "Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Americas", "1.1", _SPOT
    ),
    _sku("A2 Instance Core running in Netherlands", "0.035", **_EUROPE),
    # Others that begin or end alike.
    _sku("Commitment v1: A2 Cpu in Americas for 1 Year", "0.01", "Commit1Yr"),
    _sku("A2 Custom Instance Core running in Americas", "0.9"),
    _sku("A2 Sole Tenancy Instance Core running in Americas", "0.8"),
    _sku("Reserved A2 Instance Core running in Americas", "0.0"),
    _sku("Nvidia Tesla A100 GPU attached to DWS Defined Duration VMs running in Americas", "1.5"),
    _sku("N2 Instance Core running in Americas", "0.03"),
    _sku("N2 Instance Ram running in Americas", "0.004"),
    _sku("N2 Instance Ram running in Americas", "0.005"),
    _sku("G2 Instance Core running in Iowa", "0.025"),
    _sku("G2 Instance Ram running in Iowa", "0.003", unit="GiBy.mo"),
    _sku("Nvidia L4 GPU running in Iowa", "0.56"),
)


class _Desk(BaseHTTPRequestHandler):
    num_read = 0
    is_open = True

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        if place.path == "/num-read":
            return self._say(200, _Desk.num_read)
        if place.path == "/close":
            _Desk.is_open = False
            return self._say(200, {})
        if place.path.endswith("/service-accounts/default/token"):
            is_ours = self.headers["Metadata-Flavor"] == "Google"
            token = {"access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer"}
            return self._say(200 if is_ours else 403, token if is_ours else {})
        if not _Desk.is_open or self.headers["Authorization"] != f"Bearer {TOKEN}":
            error = {"code": 403, "message": "Cloud Billing API has not been used in project 1"}
            return self._say(403, {"error": error})
        return self._say(200, self._page(parse_qs(place.query)))

    def _page(self, query: dict[str, list[str]]) -> dict[str, Any]:
        start = int(query.get("pageToken", ["0"])[0])
        _Desk.num_read += not start
        end = start + PAGE_SIZE
        following = str(end) if end < len(SKUS) else ""
        return {"skus": SKUS[start:end], "nextPageToken": following}

    def _say(self, status: int, body: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class GcpCatalog(PriceServer):
    """The process, for as long as a test needs it."""

    def __init__(self) -> None:
        super().__init__(__name__)

    @property
    def url(self) -> str:
        """The URL of its prices."""
        return f"http://{self.host}/v1/services/6F81-5844-456A/skus"


if __name__ == "__main__":
    serve(_Desk)
