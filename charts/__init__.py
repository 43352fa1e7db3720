"""The Helm chart, and what is generated for it and from it; nothing here is shipped."""
