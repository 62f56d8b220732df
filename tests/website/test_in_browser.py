"""The built site in a browser: it is drawn, formulas and all, and asks the network for nothing."""

from pathlib import Path

import pytest

from chromium import look_at
from images import is_blank

SITE = Path(__file__).parents[2] / "build" / "site"


def test_a_page_opens_from_its_file_without_a_network(tmp_path: Path) -> None:
    page = SITE / "claims" / "weighted-zeros.html"
    if not page.exists():
        pytest.skip("the site is not built; make docs does it")
    seen = look_at(page, tmp_path, width=1280, height=1600)
    assert seen.asked == []
    assert seen.console == []
    assert not is_blank(seen.picture)
