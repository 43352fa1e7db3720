"""The gate of the page that a cluster serves: it checks names, and allows only reading. Pure.

An authentication in front of it decides who may see the page: oauth2-proxy, or an ingress that asks
one. The page knows no users, and shows each visitor the same. It makes these checks itself:

* Host must be a name that was configured, so another name that resolves here is refused.
* A request that the browser marks as from another site is refused, except a visit of the page
  itself: people send each other links, and their identity provider sends them back here.
* Only GET without a body is accepted. Headers and content security policy are those of `door.py`.
"""

from dataclasses import dataclass

from spotrun.cli.page.door import Asked, Refusal, from_elsewhere, not_at, not_understood


@dataclass(frozen=True)
class Gate:
    """The names of a page that is served behind an authentication."""

    hosts: tuple[str, ...]

    @property
    def root(self) -> str:
        """The path of the page."""
        return "/"

    def refusal(self, asked: Asked) -> Refusal | None:
        """Return why a request is refused; None if it is not."""
        is_visit = asked.path == self.root and asked.headers.get("Sec-Fetch-Mode") == "navigate"
        origins = [f"{scheme}://{host}" for host in self.hosts for scheme in ("https", "http")]
        return (
            not_at(self.hosts, asked)
            or from_elsewhere(asked, origins, is_entrance=is_visit)
            or not_understood(asked)
        )
