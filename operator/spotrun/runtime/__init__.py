"""The operator's process: kopf, the controller, the reconciler, and its log."""
