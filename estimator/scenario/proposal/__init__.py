"""Proposal: which scenario a profile's op list is most likely of."""
