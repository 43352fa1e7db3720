"""A node's copies of shards on its disk: its processes share them, and they outlive a pod."""
