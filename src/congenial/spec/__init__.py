"""The spec file: what a curator writes, checked, public."""

from congenial.spec.load import load_spec, parse_spec
from congenial.spec.model import json_schema
from congenial.spec.spec import Spec

__all__ = ["Spec", "json_schema", "load_spec", "parse_spec"]
