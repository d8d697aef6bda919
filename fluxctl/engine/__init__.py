"""The engine: the only package with threads; one aggregator, a pool of trainers, and a clock."""
