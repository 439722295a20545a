"""Alpha, the disjunction advantage: how much smaller a disjunction is than its parts (slides, part III)."""
