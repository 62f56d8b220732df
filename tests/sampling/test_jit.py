"""Kernels call kernels, compiled or interpreted; compiled code is trusted only where nobody else can write."""

import ast
import os
import pickle
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import numba
import numpy as np
import pytest

import congenial
from congenial.sampling import jit

SOURCE = Path(congenial.__file__).parent


@jit.kernel
def _twice(x: float) -> float:
    return 2.0 * x


@jit.kernel
def _twice_and_one(x: float) -> float:
    return _twice(x) + 1.0


def test_kernels_call_kernels_in_either_form() -> None:
    assert _twice_and_one(3.0) == 7.0
    assert jit.interpreted(_twice_and_one)(3.0) == 7.0


def test_the_setting_of_a_host_program_stays() -> None:
    config: Any = numba.config
    before = config.CACHE_DIR
    _twice_and_one(1.0)
    from congenial.sampling.elimination.kernels_layout import _window

    assert _window(-3, 4, 2) == (-2, 5, True)
    assert before == config.CACHE_DIR


def _kernel_globals(function: FunctionType) -> set[str]:
    return {name for name in jit._global_names(function.__code__) if name in function.__globals__}


def test_the_digest_covers_all_that_kernels_are_made_from() -> None:
    """A constant of a module outside the digest would be compiled in, and kept after it has changed."""
    covered = tuple(f"congenial.{name.removesuffix('.py')}." for name in jit._KERNEL_SOURCES)
    for path in filter(jit.is_cached_source, sorted(SOURCE.rglob("*.py"))):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        origins = {
            alias.asname or alias.name: node.module or ""
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        module = import_module(".".join(("congenial", *path.relative_to(SOURCE).with_suffix("").parts)))
        for value in list(vars(module).values()):
            if not isinstance(value, jit.Kernel | jit.GenericKernel) or value.function.__module__ != module.__name__:
                continue
            for name in _kernel_globals(value.function):
                origin = origins.get(name, "")
                assert not origin.startswith("congenial.") or origin.startswith(covered), f"{path.name}: {name}"


def cache_folder(base: Path) -> Path | None:
    """Return what the rule says of a base folder, in a process of its own."""
    code = "from congenial.sampling.jit import private_cache_folder; print(private_cache_folder() or '')"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(base)}
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return Path(told.stdout.strip()) if told.stdout.strip() else None


def test_a_private_folder_is_made_and_used_again(tmp_path: Path) -> None:
    base = tmp_path / "cache"
    first = cache_folder(base)
    assert first is not None
    assert first.parent == base.resolve()
    assert first.stat().st_mode & 0o777 == 0o700
    (first / "inside").mkdir()
    (first / "inside" / "code.nbi").touch()
    assert cache_folder(base) == first


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_not_used(mode: int, tmp_path: Path) -> None:
    base = tmp_path / "cache"
    base.mkdir()
    base.chmod(mode)
    assert cache_folder(base) is None
    base.chmod(mode | 0o1000)  # sticky, as /tmp: nobody can replace what is ours
    assert cache_folder(base) is not None


def test_a_parent_that_others_can_write_is_not_trusted(tmp_path: Path) -> None:
    base = tmp_path / "shared" / "cache"
    base.mkdir(parents=True, mode=0o700)
    assert cache_folder(base) is not None
    base.parent.chmod(0o770)
    assert cache_folder(base) is None


def test_a_folder_of_kernels_that_is_open_to_others_is_not_used(tmp_path: Path) -> None:
    folder = cache_folder(tmp_path / "cache")
    assert folder is not None
    folder.chmod(0o750)
    assert cache_folder(tmp_path / "cache") is None


def test_links_inside_are_not_followed(tmp_path: Path) -> None:
    folder = cache_folder(tmp_path / "cache")
    assert folder is not None
    (folder / "code.nbc").symlink_to(tmp_path / "elsewhere")
    assert cache_folder(tmp_path / "cache") is None


def test_a_file_with_a_second_name_is_not_used(tmp_path: Path) -> None:
    """Whoever has the other name can go on writing it."""
    folder = cache_folder(tmp_path / "cache")
    assert folder is not None
    (folder / "code.nbi").touch()
    (tmp_path / "elsewhere").hardlink_to(folder / "code.nbi")
    assert cache_folder(tmp_path / "cache") is None


@pytest.mark.parametrize("setting", [{"NUMBA_DISABLE_JIT": "1"}, {"NUMBA_CACHE_LOCATOR_CLASSES": "os.path"}])
def test_settings_of_numba_stop_no_kernel(setting: dict[str, str], tmp_path: Path) -> None:
    code = "from congenial.sampling.elimination.kernels_layout import _window; print(_window(-3, 4, 2))"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), **setting}
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "(-2, 5, True)"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_files_and_folders_of_another_user_are_not_used(tmp_path: Path) -> None:
    folder = cache_folder(tmp_path / "cache")
    assert folder is not None
    planted = folder / "code.nbi"
    planted.touch()
    os.chown(planted, 12345, 12345)
    assert cache_folder(tmp_path / "cache") is None
    planted.unlink()
    os.chown(folder, 12345, 12345)
    assert cache_folder(tmp_path / "cache") is None


# A draw with both margins exact, whose kernels are compiled whatever its size.
DRAW = """
import numpy as np
from congenial.noise import DiscreteGaussian
from congenial.randomness import replay_rng
from congenial.sampling.two_way.counts_given_margins import TwoWayCounts
counts = np.array([[2, 0, 1], [0, 3, 0], [1, 1, 4]])
two_way = TwoWayCounts(DiscreteGaussian("10/23"), counts, np.array([3, 3, 6]), np.array([4, 3, 5]))
print(two_way.attempts(is_turned=False).draw(3, replay_rng("both margins")).tolist())
"""

# The mutant: every folder is trusted.
TRUST_ALL = """
from congenial.sampling import jit
jit._is_trusted = jit._is_private = lambda folder: True
"""


class _Mark:
    """Leaves a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.mark), "w")


def _plant(folder: Path, mark: Path, names: list[str]) -> None:
    """What a member of the group does: index files of every kernel, in folders that open to all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(pickle.dumps(_Mark(mark)))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("is_mutant", [False, True])
def test_code_that_a_member_of_the_group_planted_is_not_run(is_mutant: bool, tmp_path: Path) -> None:
    """The attack: ``NUMBA_CACHE_DIR`` is a folder that a group can write, and a member of it was there first."""
    from numba.core.caching import UserProvidedCacheLocator  # the attacker knows numba's names

    locator: Any = UserProvidedCacheLocator
    kernels, mark = SOURCE / "sampling" / "two_way", tmp_path / "mark"
    inside = locator.get_suitable_cache_subpath(str(kernels / "kernels_attempt.py"))
    names = [
        f"{path.stem}.{kernel}-{line}.py{sys.version_info[0]}{sys.version_info[1]}.nbi"
        for path in kernels.glob("*.py")
        for kernel, line in _functions(path)
    ]
    with tempfile.TemporaryDirectory() as made:
        shared = Path(made)
        os.chown(shared, 0, 12000)
        shared.chmod(0o2770)
        attacker = os.fork()
        if attacker == 0:
            os.setgroups([])
            os.setgid(12000)
            os.setuid(12002)
            os.umask(0)
            _plant(shared / f"kernels-{jit._sources_digest()}" / inside, mark, names)
            os._exit(0)
        assert os.waitpid(attacker, 0)[1] == 0
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(shared)}
        code = TRUST_ALL * is_mutant + DRAW
        subprocess.run([sys.executable, "-c", code], env=environment, check=not is_mutant, capture_output=True)
    assert mark.exists() == is_mutant


def _functions(path: Path) -> list[tuple[str, int]]:
    """Return the functions of a file, with the line that Python says they begin in: that of the decorator."""
    found = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]
    return [(node.name, min([node.lineno, *(one.lineno for one in node.decorator_list)])) for node in found]


def test_without_a_private_folder_kernels_are_compiled_in_memory(tmp_path: Path) -> None:
    base = tmp_path / "open"
    base.mkdir()
    base.chmod(0o777)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(base)}
    code = "from congenial.sampling.elimination.kernels_layout import _window; print(_window(-3, 4, 2))"
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "(-2, 5, True)"
    assert not list(base.rglob("*.nb*"))


def test_a_read_only_table_draws_the_same_without_compiling_again() -> None:
    from congenial.examples import p12_mechanism, p12_table
    from congenial.sampling.elimination.kernels_backward import draw_batch
    from congenial.sampling.elimination.sampler import elimination_of, sample_batch

    target, compiled = p12_mechanism().law(p12_table()).target, cast("jit.Kernel", draw_batch).compiled
    centres = np.tile(target.centre, (40, 1))
    drawn = sample_batch(elimination_of(target), centres, congenial.replay_rng("read-only"))
    centres.flags.writeable, kinds = False, len(cast("Any", compiled).signatures)
    assert np.array_equal(sample_batch(elimination_of(target), centres, congenial.replay_rng("read-only")), drawn)
    assert len(cast("Any", compiled).signatures) == kinds > 0
