"""The parity ladder: is a simulated run the real one? It reads run directories and never imports the engine."""
