"""Budgets: how much is left, how much may be spent per hour, and what happens at the limit."""
