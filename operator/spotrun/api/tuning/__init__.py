"""`TuningJob` as models: its spec, its status, and the words of both."""
