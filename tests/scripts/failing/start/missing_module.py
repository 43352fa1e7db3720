"""A package that the image lacks.

First cause: rank ? ended with exit code 1: ModuleNotFoundError: No module named 'a_flash' at
missing_module.py:L in <module>
"""

import a_flash  # type: ignore[import-not-found]

print(a_flash)
