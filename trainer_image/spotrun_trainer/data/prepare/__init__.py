"""`spotrun data`: shards of tokens made of texts, and manifests of data that is there."""
