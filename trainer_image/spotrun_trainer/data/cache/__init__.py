"""A node's copies of shards on its disk, which its processes share, and which outlive a pod."""
