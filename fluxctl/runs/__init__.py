"""Run directories: layout, records, selection, provenance, and the supervision of engine processes."""
