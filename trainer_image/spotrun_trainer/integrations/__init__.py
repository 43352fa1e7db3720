"""Adapters for training loops that others wrote; each module imports its framework, none here."""
