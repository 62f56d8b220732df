"""What words mean, from docs/glossary.md: a heading each, then sentences."""

import re
from functools import cache
from pathlib import Path

_INSTALLED = Path(__file__).parent / "glossary.md"
_SOURCE = Path(__file__).parents[3] / "docs" / "glossary.md"


@cache
def meanings() -> dict[str, str]:
    """Return what each word of the glossary means, in plain text.

    Examples
    --------
    >>> meanings()["rho"].startswith("A budget")
    True
    """
    text = (_INSTALLED if _INSTALLED.is_file() else _SOURCE).read_text(encoding="utf-8")
    found = re.findall(r"^## (.+)\n+((?:(?!^## ).*\n?)+)", text, flags=re.M)
    return {name.strip(): " ".join(_plain(body).split()) for name, body in found}


def _plain(body: str) -> str:
    """Take links and marks out."""
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", body).replace("`", "").replace("**", "")
