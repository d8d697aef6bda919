"""Pure torch: what a model is, what a client does with a mini-batch, and how updates become a new model."""
