"""What a reader with a keyboard or a screen reader needs and the theme leaves out.

A hook of MkDocs: the dialog of search has a name, and a formula or a table that is wider than
the screen can be scrolled by keys.
"""

from typing import Any

AIDS = {
    'data-md-component="search" role="dialog"': 'data-md-component="search" role="dialog" aria-label="Search"',
    '<span class="katex-display">': '<span class="katex-display" tabindex="0">',
    "<table>": '<table tabindex="0">',
}


def on_post_page(output: str, **_: Any) -> str:
    """Put the aids into a finished page (MkDocs calls this)."""
    for left_out, given in AIDS.items():
        output = output.replace(left_out, given)
    return output
