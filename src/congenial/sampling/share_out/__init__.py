"""Children of a unit given its table: what is released of the parent is shared out among them."""
