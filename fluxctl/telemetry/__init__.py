"""The event stream of a run: what it says, how it is written in order, read back and hashed."""
