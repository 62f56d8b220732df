"""The spec file: what a curator writes, checked, public."""

from congenial.release.spec.load import load_spec, parse_spec
from congenial.release.spec.spec import Spec

__all__ = ["Spec", "load_spec", "parse_spec"]
