"""The modelled world: keyed random streams and client delays. Pure functions of seed, client and time."""
