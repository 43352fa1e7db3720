"""Azurite, Microsoft's own server of the API of Azure Blob Storage, for tests that need it."""
