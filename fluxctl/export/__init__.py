"""Runs in the formats of other tools: CSV, Parquet, TensorBoard."""
