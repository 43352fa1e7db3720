"""The storage format of moments that may be absent, for all codecs."""

from datetime import datetime

from spotrun.api.field_types.text_values import Time


def moment_of(time: Time | None) -> datetime | None:
    """Read a time; None where there is none."""
    return time.datetime if time is not None else None


def time_of(moment: datetime | None) -> Time | None:
    """Write a moment; None where there is none."""
    return Time.of(moment) if moment is not None else None
