"""Machine code of kernels: numba makes it once, and later processes run it without numba, with the same results."""

import dis
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType

import numpy as np
import pytest

from congenial.arrays import Ints
from congenial.sampling.kernels import compiled as kernels
from congenial.sampling.kernels import compiler
from congenial.sampling.kernels.machine_code import MachineCode, NotAloneError, kind_of
from congenial.sampling.kernels.made_from import names_of

PROGRAM = """
import json
import sys
from dataclasses import dataclass

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.sampling.kernels.compiled import compiled, entry
from congenial.sampling.kernels.packed import Packed
from congenial.sampling.kernels.wide import Wide


@dataclass(frozen=True, eq=False)
class Inside(Packed):
    numbers: Ints
    scale: float


UNIT = 1.0


@compiled
def _scaled(inside, i):
    return UNIT * inside.numbers[i] * inside.scale


@entry
def sum_of(inside: Inside, places: Ints, times: float, is_twice: bool, out: Floats) -> float:
    total = 0.0
    for i in range(places.size):
        out[i] = _scaled(inside, places[i]) * times * (2.0 if is_twice else 1.0)
        total += out[i]
    return total


@entry
def corner(table: Ints) -> tuple[int, float]:
    return table[1, 2], np.exp(table[0, 0] / 2)


@entry
def larger(numbers: Wide, i: int) -> bool:
    return numbers.power[i] > 0 or numbers.value[i] > 1.0


@entry
def quotient(a: int, b: int) -> int:
    return a // b


@entry
def fill(out: Floats, value: float) -> None:
    for i in range(out.size):
        out[i] = value


def main():
    inside, room = Inside(np.array([3, 5, 7]), 0.5), np.empty(2)
    fixed = np.array([2, 0])
    fixed.flags.writeable = False
    found = [sum_of(inside, fixed, 1.5, True, room), room.tolist(), sum_of(inside, np.array([1, 1]), 3.0, False, room)]
    table = np.arange(12).reshape(3, 4)
    found += [corner(table), corner(table.T), corner(table[:, ::-1]), corner(np.asfortranarray(table))]
    wide = Wide(np.array([0.5, 2.0, 0.5]), np.array([0, 0, 1]))
    found += [[larger(wide, i) for i in range(3)], quotient(-7, np.int64(2)), fill(room, 4.0), room.tolist()]
    try:
        quotient(1, 0)
    except ArithmeticError:
        found.append("refused")
    print(json.dumps({"found": found, "numba": "numba" in sys.modules}))


main()
"""
FOUND = [15.0, [10.5, 4.5], 15.0, [6, 1.0], [9, 1.0], [5, float(np.exp(1.5))], [6, 1.0]]
FOUND += [[False, True, True], -4, None, [4.0, 4.0], "refused"]


def run(program: Path, kept: Path, text: str = PROGRAM) -> tuple[object, bool]:
    """Run the program with a folder for machine code; return what it found, and whether numba was loaded."""
    program.write_text(text, encoding="utf-8")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(kept)}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    return answer["found"], answer["numba"]


def test_kernels_are_compiled_once(tmp_path: Path) -> None:
    program, kept = tmp_path / "program.py", tmp_path / "kept"
    assert run(program, kept) == (FOUND, True)
    assert run(program, kept) == (FOUND, False)
    files = {path.name.split("-")[0] for path in kept.iterdir() if path.is_file()}
    assert files == {"sum_of", "corner", "larger", "quotient", "fill"}
    assert all(path.suffix == ".kernel" for path in kept.iterdir() if path.is_file())
    assert kept.stat().st_mode & 0o777 == 0o700


@pytest.fixture(scope="module")
def of_one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The machine code that one run has left."""
    folder = tmp_path_factory.mktemp("machine-code")
    assert run(folder / "program.py", folder / "kept") == (FOUND, True)
    return folder / "kept"


@pytest.mark.parametrize(
    ("said", "instead"),
    [("* times *", "* times * 3.0 *"), ("* inside.scale", "* inside.scale * 3.0"), ("UNIT = 1.0", "UNIT = 3.0")],
)
def test_code_of_anything_else_is_not_taken(said: str, instead: str, of_one_run: Path, tmp_path: Path) -> None:
    """A change of a kernel, of one that it calls, or of a constant that this one takes from its file."""
    kept = tmp_path / "kept"
    shutil.copytree(of_one_run, kept)
    program = tmp_path / "program.py"
    changed = run(program, kept, PROGRAM.replace(said, instead))
    assert changed[1]
    assert changed[0] == [45.0, [31.5, 13.5], 45.0, *FOUND[3:]]
    assert run(program, kept) == (FOUND, False)  # and what was kept is still there


IN_FILES = {
    "lowest": "from congenial.sampling.kernels.compiled import compiled\n@compiled\ndef low(x):\n    return x * 2.0\n",
    "middle": "from congenial.sampling.kernels.compiled import compiled\nfrom lowest import low\n"
    "@compiled\ndef mid(x):\n    return low(x) + 1.0\n",
    "program": "from congenial.sampling.kernels.compiled import compiled, entry\nfrom middle import mid\n"
    "@entry\ndef top(x):\n    return mid(x)\n@compiled\ndef by_numba(x):\n    return mid(x)\n"
    "print(top(5.0), by_numba(5.0))\n",
}


def test_a_change_three_files_away_is_noticed(tmp_path: Path) -> None:
    """numba looks at the file of a kernel alone, and what it keeps has the code of others inside."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}

    def printed() -> str:
        done = subprocess.run(
            [sys.executable, tmp_path / "program.py"], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    for name, text in IN_FILES.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    assert printed() == printed() == "11.0 11.0\n"
    (tmp_path / "lowest.py").write_text(IN_FILES["lowest"].replace("* 2.0", "* 30."), encoding="utf-8")
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)  # Python's own, which goes by the second and the size
    assert printed() == "151.0 151.0\n"


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _edited_head(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"float64"', b'"int64"'))


def _emptied_head(file: Path) -> None:
    rest = file.read_bytes().partition(b"\n")[2].partition(b"\n")[2]
    content = b"null\n" + rest
    file.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)


def _renamed(file: Path) -> None:
    """Put the whole code of another kernel in its place."""
    own = file.name.split("-")[0]
    others = [other for other in file.parent.glob("*.kernel") if other.name.split("-")[0] != own and is_whole(other)]
    file.write_bytes(others[0].read_bytes())


def _linked(file: Path) -> None:
    file.rename(file.with_suffix(".elsewhere"))
    file.symlink_to(file.with_suffix(".elsewhere"))


def _writable(file: Path) -> None:
    file.chmod(0o666)  # whoever can write code can have it run


def _a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def is_whole(file: Path) -> bool:
    """Return whether a file is as `keep` writes it, and under its own name."""
    if file.is_symlink() or not file.is_file() or file.stat().st_mode & 0o777 != 0o644:
        return False
    digest, _, content = file.read_bytes().partition(b"\n")
    head = json.loads(content.partition(b"\n")[0])
    is_own = isinstance(head, dict) and head["key"][:32] in file.name
    return is_own and hashlib.sha256(content).hexdigest().encode() == digest


def test_code_that_is_not_what_was_kept_is_made_anew(of_one_run: Path, tmp_path: Path) -> None:
    """Each kind of damage to a file of its own: all are noticed, and mended."""
    kept = tmp_path / "kept"
    shutil.copytree(of_one_run, kept)
    files = sorted(kept.glob("*.kernel"), key=lambda file: file.name.split("-")[0] != "sum_of")  # it returns a double
    assert all(map(is_whole, files))
    damages = [_edited_head, _cut, _emptied_head, _renamed, _linked, _writable, _a_pipe]
    for damage, file in zip(damages, files, strict=True):
        damage(file)
    assert run(tmp_path / "program.py", kept) == (FOUND, True)
    assert all(map(is_whole, files))
    assert run(tmp_path / "program.py", kept) == (FOUND, False)


def test_nothing_is_taken_from_a_folder_that_everybody_can_write(of_one_run: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(of_one_run, kept)
    kept.chmod(0o777)
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*")}
    assert run(tmp_path / "program.py", kept) == (FOUND, True)
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*")} == before


DRAWN = """
import sys
import numpy as np
import congenial as cg
from congenial.examples import p12_mechanism, p12_table
from congenial.sampling.contraction import messages
from congenial.sampling.kernels import compiled
compiled._AT_MOST = -1
target = p12_mechanism().law(p12_table()).target
engine = messages.engine_of(target)
made = messages.Messages.of(engine, target.centre)
made.sample(2, cg.replay_rng(1))
messages.sample_batch(engine, np.tile(target.centre, (3, 1)), cg.replay_rng(1))
messages.log_normalisers(engine, target.centre[None, :])
print("numba" in sys.modules)
"""


def test_draws_of_areas_need_no_numba_when_their_kernels_are_kept() -> None:
    for _ in range(2):  # the first may compile them
        done = subprocess.run([sys.executable, "-c", DRAWN], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_where_nothing_can_be_written_kernels_are_compiled_each_time(tmp_path: Path) -> None:
    blocked = tmp_path / "kept"
    blocked.write_text("a file where the folder would be", encoding="utf-8")
    assert run(tmp_path / "program.py", blocked / "inside") == (FOUND, True)


def _at(numbers: Ints, i: int) -> int:
    return int(numbers[i])


def test_threads_that_begin_together_compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, n_compiled, made = kernels.entry(_at), [], compiler.compile_code

    def compile_and_count(function: FunctionType, arguments: Sequence[object]) -> MachineCode:
        n_compiled.append(function.__name__)
        return made(function, arguments)

    monkeypatch.setattr(kernels, "find", lambda *_: None)
    monkeypatch.setattr(compiler, "compile_code", compile_and_count)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda i: kernel(np.arange(4), i), range(4))) == [0, 1, 2, 3]
    assert n_compiled == ["_at"]


def _summed(numbers: Ints) -> int:
    return int(np.cumsum(numbers)[-1])


def test_a_kernel_that_makes_arrays_is_run_by_numba() -> None:
    with pytest.raises(NotAloneError, match=r"_summed needs .*NRT_"):
        compiler.compile_code(kernels._bound(_summed, "inner"), [np.arange(3)])  # type: ignore[arg-type]
    assert kernels.entry(_summed)(np.arange(4)) == 6


@pytest.mark.parametrize(
    "value",
    [
        {},
        2**64,
        -(2**63) - 1,
        np.arange(3, dtype=">i8"),
        np.zeros(9, np.uint8)[1:].view(np.float64),
        np.float32(1),
        "a",
    ],
)
def test_what_no_kernel_takes_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be given to a kernel"):
        kind_of(value)


def _by_dis(code: CodeType) -> set[str]:
    inside = [_by_dis(part) for part in code.co_consts if isinstance(part, CodeType)]
    return {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}.union(*inside)


def test_names_that_code_takes_from_its_file() -> None:
    """The two readings of Python's own code agree, on kernels and on modules with more names than a byte counts."""
    n_read = 0
    for name in ("argparse", "typing", "numpy.lib._function_base_impl", "congenial.sampling.kernels.messages"):
        for one in vars(import_module(name)).values():
            code = getattr(getattr(one, "written", one), "__code__", None)
            if isinstance(code, CodeType):
                assert names_of(code) == _by_dis(code)
                n_read += 1
    assert n_read > 100
    many = compile("def f():\n" + "".join(f"    g{n}(h{n})\n" for n in range(600)), "many", "exec").co_consts[0]
    assert names_of(many) == {f"{letter}{n}" for n in range(600) for letter in "gh"}
