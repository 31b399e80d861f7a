"""Layout: which lines of a text make a table, a list or fields, whatever their words and numbers mean."""
