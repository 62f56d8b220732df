"""What must hold in every released table."""
