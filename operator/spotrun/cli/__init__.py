"""The command lines that people type: thin, they parse, call the layers below and print."""
