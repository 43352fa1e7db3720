"""The Helm chart, and the code that generates files for it and from it; not shipped itself."""
