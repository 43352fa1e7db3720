"""Bills: what the jobs of a namespace have cost in a month, kept beyond the jobs themselves."""
