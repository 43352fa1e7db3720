"""The only writer: it turns decisions into objects, one conditional write at a time."""
