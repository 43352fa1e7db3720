"""AWS's price list, played: one operation of its JSON protocol, over real HTTP."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import web

PAGE = 2  # products per answer, so that a reader has to ask for the next page


def product(instance_type: str, usd: str, unit: str = "Hrs", **attributes: str) -> dict[str, Any]:
    """A product as the list has it, abridged; of Linux on shared machines if not said otherwise."""
    price = {"unit": unit, "pricePerUnit": {"USD": usd}}
    said = {
        "instanceType": instance_type,
        "regionCode": "us-east-1",
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }
    return {
        "product": {"productFamily": "Compute Instance", "attributes": said | attributes},
        "terms": {"OnDemand": {"SKU.JRTCKXETXF": {"priceDimensions": {"SKU.6YS6EN2CT7": price}}}},
    }


class PriceList:
    """Serves products; counts questions; can be told to refuse."""

    def __init__(self, *products: dict[str, Any]) -> None:
        self.products = products
        self.url = ""
        self.num_asked = 0
        self.refuses = False

    def app(self) -> web.Application:
        """The service."""
        app = web.Application()
        app.router.add_post("/", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        assert request.headers["X-Amz-Target"] == "AWSPriceListService.GetProducts"
        self.num_asked += 1
        if self.refuses:
            error = {"__type": "AccessDeniedException", "Message": "not authorized to GetProducts"}
            return _json(error, status=400)
        asked = json.loads(await request.read())
        assert asked["ServiceCode"] == "AmazonEC2"
        found = list(self._matching(asked["Filters"]))
        first = int(asked.get("NextToken", 0))
        answer: dict[str, Any] = {"PriceList": [json.dumps(p) for p in found[first : first + PAGE]]}
        if first + PAGE < len(found):
            answer["NextToken"] = str(first + PAGE)
        return _json(answer)

    def _matching(self, filters: list[Mapping[str, str]]) -> Iterator[dict[str, Any]]:
        for product in self.products:
            attributes = product["product"]["attributes"]
            if all(attributes.get(f["Field"]) == f["Value"] for f in filters):
                yield product


def _json(what: Mapping[str, Any], status: int = 200) -> web.Response:
    return web.json_response(what, status=status, content_type="application/x-amz-json-1.1")
