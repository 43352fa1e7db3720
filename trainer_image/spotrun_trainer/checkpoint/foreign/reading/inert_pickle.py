"""A pickle read as data: each object in it becomes a record that describes it; no code is run.

torch.distributed.checkpoint keeps its index in a pickle, which torch itself unpickles. Here each
class or function in it is replaced by a class of ours, made for this one reading.

We use Python's pickle reader that is written in Python: the one in C makes a table as long as the
largest index in the file, which may be tens of GiB. It takes some 4 s for 100,000 chunks.
"""

import io
import pickle
from typing import Any, ClassVar

from typing_extensions import override


class Record:
    """An object that was not created: its class, its arguments, and its state."""

    what = ""  # module.name

    def __new__(cls, *arguments: object, **_named: object) -> "Record":  # noqa: PYI034 - 3.10
        """Note the arguments."""
        record = super().__new__(cls)
        record.arguments = arguments
        record.state = None
        return record

    arguments: tuple[Any, ...]
    state: Any

    def __init__(self, *_arguments: object, **_named: object) -> None:
        """Do nothing: the arguments are noted already."""

    def __setstate__(self, state: object) -> None:
        """Note the state."""
        self.state = state

    def __setitem__(self, key: object, value: object) -> None:
        """Drop an entry of an object that is not a plain dict."""

    def append(self, value: object) -> None:
        """Drop an entry of an object that is not a plain list."""

    def extend(self, values: object) -> None:
        """Drop entries of an object that is not a plain list."""


def read(content: bytes) -> Any:  # noqa: ANN401 - may be anything
    """Return the content of a pickle, with records in place of all objects; raises ValueError."""
    try:
        return _Reader(io.BytesIO(content)).load()
    except Exception as error:  # a pickle can make the reader fail in any way
        raise ValueError(f"it is not a readable pickle: {str(error)[:120]}") from error


class _Reader(pickle._Unpickler):  # noqa: SLF001 - there is no public name
    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)  # noqa: SLF001

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)
        self._known: dict[tuple[str, str], type[Record]] = {}

    @override
    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return a class of records for any name."""
        known = self._known.get((module_name, global_name))
        if known is None:
            known = type("Named", (Record,), {"what": f"{module_name}.{global_name}"})
            self._known[module_name, global_name] = known
        return known

    def load_bytearray8(self) -> None:
        """Refuse a bytearray: Python would allocate its stated length before reading it."""
        raise ValueError("it has a bytearray, which an index never has")

    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8
