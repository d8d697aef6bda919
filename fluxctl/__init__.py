"""A laboratory for federated fine-tuning of language models with forward gradients."""
