"""What npm installed for the site goes into it: style and fonts of KaTeX, and what lets search run from a file.

A hook of MkDocs. Of each font one format is taken; every browser that shows the rest of the site reads it.
"""

import re
import shutil
from pathlib import Path
from typing import Any

PACKAGES = Path(__file__).parent / "node_modules"
OTHER_FORMATS = re.compile(r",url\([^)]*\.(?:woff|ttf)\) format\(\"\w+\"\)")


def on_post_build(config: Any) -> None:
    """Copy the files (MkDocs calls this)."""
    assets, katex = Path(config["site_dir"], "assets"), PACKAGES / "katex" / "dist"
    for folder in ("katex/fonts", "iframe-worker"):
        (assets / folder).mkdir(parents=True, exist_ok=True)
    for font in sorted((katex / "fonts").glob("*.woff2")):
        shutil.copy(font, assets / "katex" / "fonts")
    style = (katex / "katex.min.css").read_text(encoding="utf-8")
    (assets / "katex" / "katex.min.css").write_text(OTHER_FORMATS.sub("", style), encoding="utf-8")
    shutil.copy(PACKAGES / "iframe-worker" / "shim" / "index.js", assets / "iframe-worker" / "shim.js")
