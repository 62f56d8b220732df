"""What `congenial plan` computes, by what is planned: tables of one level, or a tree."""

from typing import Any, TypeVar

from congenial.curator.base_preview import Preview
from congenial.curator.preview import TablesPreview, TreePreview, preview

_Kind = TypeVar("_Kind", bound=Preview)


def tables_preview(*args: Any, **options: Any) -> TablesPreview:
    """Return the preview of a spec without a hierarchy."""
    return _of(TablesPreview, preview(*args, **options))


def tree_preview(*args: Any, **options: Any) -> TreePreview:
    """Return the preview of a spec with a hierarchy."""
    return _of(TreePreview, preview(*args, **options))


def _of(kind: type[_Kind], planned: Preview) -> _Kind:
    assert isinstance(planned, kind)
    return planned
