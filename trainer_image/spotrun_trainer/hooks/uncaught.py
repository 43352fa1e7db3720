"""An exception that ends a script is noted where torchrun looks, as torch's @record does.

So the failure of a job says what was raised and where, and not only that its log does.
"""

import json
import os
import time
import traceback
from pathlib import Path
from types import TracebackType

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
_MOST_CHARACTERS = 500  # of the exception's own words: a message on the wire has 1,024
_MOST_FRAMES = 3


def note_error(error: BaseException, trace: TracebackType | None) -> None:
    """Note an exception that nobody caught; only torchrun's own process of a rank does so."""
    place = os.environ.get(ERROR_FILE)
    if not place or os.getpid() != os.getsid(0) or Path(place).exists():
        return
    extra = {"py_callstack": "", "timestamp": str(int(time.time()))}
    content = {"message": {"message": words_of(error, trace), "extraInfo": extra}}
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    Path(place).write_text(json.dumps(content))


def words_of(error: BaseException, trace: TracebackType | None) -> str:
    """Return the exception, and the frames in which it was raised, the innermost first."""
    said = f"{type(error).__name__}: {error}".rstrip(": ")[:_MOST_CHARACTERS]
    frames = traceback.extract_tb(trace)[-_MOST_FRAMES:]
    where = [f"{Path(one.filename).name}:{one.lineno} in {one.name}" for one in reversed(frames)]
    return " < ".join([f"{said} at {where[0]}", *where[1:]]) if where else said
