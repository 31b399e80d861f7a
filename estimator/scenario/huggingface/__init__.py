"""Hugging Face: what the keys of a config.json mean, family by family."""
