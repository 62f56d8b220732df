"""The spec file: what a curator writes, checked, public."""

from congenial.spec.file_format import json_schema
from congenial.spec.load import load_spec, parse_spec
from congenial.spec.spec_and_hierarchy import Spec

__all__ = ["Spec", "json_schema", "load_spec", "parse_spec"]
