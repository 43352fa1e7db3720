"""A folder that belongs to another user.

First cause: rank ? ended with exit code 1: PermissionError: [Errno 13] Permission denied: ...
model.pt
"""

import os
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
folder.chmod(0)
if os.geteuid() == 0:
    os.seteuid(65_534)
(folder / "model.pt").write_bytes(b"")
