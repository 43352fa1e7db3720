"""The process that asks Optuna for the values of one trial: a question in, an answer out, as JSON.

The operator starts it (`runtime/asking/suggestions.py`), so the memory that Optuna and NumPy use is
freed after the answer. The operator itself imports only `messages` from this package.
"""
