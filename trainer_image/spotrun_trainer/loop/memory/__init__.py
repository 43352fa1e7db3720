"""The memory that a training needs: measured without a GPU, and ways to need less."""
