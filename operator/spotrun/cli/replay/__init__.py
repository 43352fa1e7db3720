"""The flags of the commands that replay recorded markets."""
