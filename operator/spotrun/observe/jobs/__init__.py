"""Jobs and the pods of their workers, as decisions see them."""
