"""Values of `run.log`, kept as JSONL and TensorBoard event files, and sent to W&B and MLflow."""
