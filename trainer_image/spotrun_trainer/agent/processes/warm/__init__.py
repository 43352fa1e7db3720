"""Interpreters that have imported PyTorch before the script that they are to run is known."""
