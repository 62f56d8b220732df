"""From a spec file and confidential data to what is published."""
