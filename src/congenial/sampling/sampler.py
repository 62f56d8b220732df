"""Provisional."""

from typing import Any

Sampler = Any
