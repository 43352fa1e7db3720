"""Values of `run.log`, kept as JSONL and TensorBoard's events, and sent to W&B and MLflow."""
