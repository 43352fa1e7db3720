"""What `run.log` logs, kept as JSONL and TensorBoard's events, and sent to W&B and MLflow."""
