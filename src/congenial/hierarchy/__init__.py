"""Trees of areas whose tables add up: each unit's table is shared out among its children, level by level."""
