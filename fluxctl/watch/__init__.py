"""Guards a run by its event file: the engine's own stop rules, fed by what the run wrote."""
