"""Addresses, as the operator and the agents write them: `host:port`, or `[v6]:port`."""


def split_address(text: str) -> tuple[str, int]:
    """Return the host and the port; raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal():
        raise ValueError(f"{text!r} is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
