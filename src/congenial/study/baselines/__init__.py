"""What people do today: projections and the TopDown node."""
