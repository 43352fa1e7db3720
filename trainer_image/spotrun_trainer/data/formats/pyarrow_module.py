"""The package pyarrow, which may not be there."""

from typing import Any


def load() -> Any:  # noqa: ANN401 - a module that may not be there
    """Return pyarrow; raises ValueError with what to install."""
    try:
        import pyarrow  # noqa: PLC0415
        import pyarrow.ipc  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ValueError(
            "Parquet and Arrow need the package pyarrow: pip install 'spotrun[data]'"
        ) from error
    return pyarrow
