"""Values: what the words of a header and the text of a cell mean: numbers, units, formats, models."""
