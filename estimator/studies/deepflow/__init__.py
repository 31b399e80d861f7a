"""The DeepFlow study: its inputs, the figures of its log, what is corrected, plans on many chips, the power split."""
