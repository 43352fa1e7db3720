"""A beginning training loads its newest checkpoint, or weights of another model."""
