"""What a conditional release costs: certificates, calibration, neighbours, semantics, composition and audit."""
