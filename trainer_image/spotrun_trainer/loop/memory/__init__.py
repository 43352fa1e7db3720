"""The memory that a training needs: measuring it without a GPU, and ways to need less."""
