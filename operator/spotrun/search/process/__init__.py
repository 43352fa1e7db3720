"""The process that asks Optuna for the values of one trial: a question in, an answer out, as JSON.

The operator starts it (`runtime/asking/suggestions.py`), so what Optuna and NumPy take of memory is
gone when the answer is there. Of this package the operator imports `messages` alone.
"""
