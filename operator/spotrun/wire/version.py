"""The versions of the wire format."""

WIRE = 1
"""The version written by this side."""
OLDEST_SERVED = 1
"""The last three versions are served; there is one so far."""


class OldWireError(ValueError):
    """A report in a version that is no longer served."""
