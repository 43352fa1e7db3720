"""Budgets: what is left, what may be spent per hour, and what happens at the limit."""
