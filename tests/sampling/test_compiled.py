"""Compiled kernels are kept as long as nothing that they are made from has changed."""

import subprocess
import sys
from pathlib import Path

import numba
import pytest

from congenial.sampling.kernels.compiled import compiled, entry
from congenial.sampling.kernels.compiler import drop_stale


def _doubled(x: float) -> float:
    return 2.0 * x


_twice = compiled(_doubled)


def _twice_and_one(x: float) -> float:
    return _twice(x) + 1.0


@pytest.mark.parametrize("version", [numba.__version__, "0.61.0"])
def test_kernels_call_kernels_whatever_the_version_of_numba(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another version than the one whose own parts are taken, they compile as numba does by itself."""
    monkeypatch.setattr("congenial.sampling.kernels.kept_code.version_of", lambda _: version)
    monkeypatch.setitem(globals(), "_twice", compiled(_doubled))
    assert compiled(_twice_and_one)(3.0) == 7.0
    assert entry(_twice_and_one)(3.0) == 7.0


def test_kernels_of_other_sources_are_dropped(tmp_path: Path) -> None:
    kernels, shapes = tmp_path / "kernels", tmp_path / "shapes"
    kept = kernels / "__pycache__"
    for folder in (kernels, shapes, kept):
        folder.mkdir()
    (kernels / "draw.py").write_text("one", encoding="utf-8")
    (shapes / "program.py").write_text("one", encoding="utf-8")

    def is_kept() -> bool:
        names = [kept / f"draw{ending}" for ending in (".nbi", ".nbc", ".kernel")]
        for name in names:
            name.touch()
        drop_stale(kernels, shapes)
        left = {name.exists() for name in names}
        assert len(left) == 1
        return left.pop()

    assert not is_kept()  # nobody knows what it was made from
    assert is_kept()
    (shapes / "program.py").write_text("another shape", encoding="utf-8")
    assert not is_kept()
    (kernels / "called.py").write_text("a kernel that others call", encoding="utf-8")
    assert not is_kept()
    assert is_kept()


def test_a_folder_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").write_text("a file where the folder would be", encoding="utf-8")
    drop_stale(tmp_path, tmp_path)


WITHOUT_BLAS = """
import sys
import congenial.sampling.kernels.compiler
import numba, numba.np.arraymath
import numpy as np
assert "scipy.linalg" not in sys.modules
assert numba.np.arraymath.ensure_blas is numba.np.linalg.ensure_blas
assert numba.njit(lambda a, b: np.dot(a, b))(np.ones(3), np.ones(3)) == 3
assert "scipy.linalg" in sys.modules
"""


def test_kernels_load_no_linear_algebra_and_other_programs_still_have_it() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_BLAS], check=True)
