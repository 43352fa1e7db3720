"""`spotrun data`: shards of tokens made from texts, and manifests of existing data."""
