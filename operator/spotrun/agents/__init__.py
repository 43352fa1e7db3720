"""The only thing agents talk to: worlds out, reports in; metrics and health beside it."""
