"""The spec file: what a curator writes, checked, public."""

from congenial.release.spec.json_schema import json_schema
from congenial.release.spec.load import load_spec, parse_spec
from congenial.release.spec.spec import Spec
from congenial.release.spec.starter import starter_spec

__all__ = ["Spec", "json_schema", "load_spec", "parse_spec", "starter_spec"]
