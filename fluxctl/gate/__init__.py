"""Can this run be meaningful? Looks at requests before anything starts, and at nothing that a run has done."""
