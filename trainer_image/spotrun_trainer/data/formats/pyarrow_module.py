"""The package pyarrow, which may not be installed."""

from typing import Any


def load() -> Any:  # noqa: ANN401 - a module that may not be installed
    """Return pyarrow; raises ValueError that says what to install."""
    try:
        import pyarrow  # noqa: PLC0415
        import pyarrow.ipc  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ValueError(
            "Parquet and Arrow need the package pyarrow: pip install 'spotrun[data]'"
        ) from error
    return pyarrow
