"""Price tables that come with the package."""
