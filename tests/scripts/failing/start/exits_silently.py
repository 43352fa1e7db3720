"""An exit code of its own, and no word.

First cause: rank 1 ended with exit code 3: it printed nothing
"""

import os
import sys
import time

if os.environ["RANK"] == "1":
    sys.exit(3)
time.sleep(600)
