"""The analyst's side: what a bundle says about the confidential tables, and how surely. Nothing here reads data."""
