"""The backends of torch that carry a world's collectives: how a group of each is made and ended."""
