"""The proxy that the environment names for a server, by the rules of kubectl (Go's net/http)."""

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def proxy_of(server: str, environment: Mapping[str, str]) -> str | None:
    """Return the proxy for a server, or None; raises ValueError if the proxy is no URL."""
    parts = urlsplit(server)
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
    proxy = _read(environment, f"{parts.scheme}_proxy")
    if not proxy or _is_near(host) or _is_excepted(host, port, _read(environment, "no_proxy")):
        return None
    return usable(proxy)


def usable(proxy: str) -> str:
    """Return a proxy's URL with its scheme; raises ValueError for one that cannot be used."""
    url = proxy if "://" in proxy else f"http://{proxy}"
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        place = parts.hostname or "an address without a host"  # the URL may have a password
        raise ValueError(
            f"the proxy at {place} has the scheme {parts.scheme!r}, and this command knows http "
            "and https alone: name an http or https proxy in proxy-url of the kubeconfig, or in "
            "HTTPS_PROXY"
        )
    return url


def _read(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


def _is_near(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_excepted(host: str, port: int | None, exceptions: str) -> bool:
    return any(
        _matches(host.lower().rstrip("."), port, one.strip().lower())
        for one in exceptions.split(",")
        if one.strip()
    )


def _matches(host: str, port: int | None, one: str) -> bool:
    """Whether an entry of NO_PROXY means a host: `*`, a network, an address, or a domain."""
    if one == "*":
        return True
    try:
        network = ip_network(one.strip("[]"), strict=False)
    except ValueError:
        name, colon, given = one.rpartition(":")
        if colon:
            return given == str(port) and _matches(host, port, name)
    else:
        try:
            return ip_address(host) in network
        except ValueError:
            return False
    domain = one.removeprefix("*")
    if domain.startswith("."):
        return host.endswith(domain)
    return host == domain or host.endswith(f".{domain}")
