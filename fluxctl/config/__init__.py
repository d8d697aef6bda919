"""What was asked for: strict model, layers with origins, errors with places, fingerprints, presets."""
