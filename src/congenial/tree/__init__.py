"""Trees of areas: their law, plan and draw, level by level."""
