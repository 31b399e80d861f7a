"""Layout: from the op list of one rank that was alone the list of a rank among many."""
