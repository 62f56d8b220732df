"""The curator's way: from a spec and its data to a preview, a release, and a comparison for the curator alone."""
