"""Machine code of kernels: numba makes it once, and later processes run it without numba, with the same results."""

import dis
import json
import os
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
from congenial.sampling.kernels.machine_code import MachineCode, kind_of

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


@compiled
def _scaled(inside, i):
    return inside.numbers[i] * inside.scale


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
    files = {path.name.split("-")[0] for path in kept.glob("*.kernel")}
    assert files == {"sum_of", "corner", "larger", "quotient", "fill"}
    assert not [path for path in kept.iterdir() if path.suffix != ".kernel" and path.is_file()]

    changed = run(program, kept, PROGRAM.replace("* times *", "* times * 3.0 *"))  # of other sources nothing is taken
    assert changed[1]
    assert changed[0] != FOUND
    assert run(program, kept) == (FOUND, False)  # and what was kept is still there

    for file in kept.glob("quotient-*"):
        file.write_bytes(file.read_bytes()[:-1])
    assert run(program, kept) == (FOUND, True)
    assert run(program, kept) == (FOUND, False)
    for file in kept.iterdir():
        file.chmod(0o666)  # whoever can write code can have it run
    assert run(program, kept) == (FOUND, True)


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

    monkeypatch.setattr("congenial.sampling.kernels.kept_code.find", lambda *_: None)
    monkeypatch.setattr(compiler, "compile_code", compile_and_count)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda i: kernel(np.arange(4), i), range(4))) == [0, 1, 2, 3]
    assert n_compiled == ["_at"]


def _summed(numbers: Ints) -> int:
    return int(np.cumsum(numbers)[-1])


def test_a_kernel_that_makes_arrays_is_no_entry() -> None:
    with pytest.raises(TypeError, match=r"_summed needs NRT_.*: it is for numba to call"):
        kernels.entry(_summed)(np.arange(3))


def test_what_no_kernel_takes_is_refused() -> None:
    with pytest.raises(TypeError, match="a dict cannot be given to a kernel"):
        kind_of({})


def _by_dis(code: CodeType) -> set[str]:
    inside = [_by_dis(part) for part in code.co_consts if isinstance(part, CodeType)]
    return {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}.union(*inside)


def test_names_that_code_takes_from_its_file() -> None:
    """The two readings of Python's own code agree, on kernels and on modules with more names than a byte counts."""
    n_read = 0
    for name in ("argparse", "typing", "numpy.lib._function_base_impl", "congenial.sampling.kernels.messages"):
        for one in vars(import_module(name)).values():
            code = getattr(getattr(one, "_function", one), "__code__", None)
            if isinstance(code, CodeType):
                assert kernels._names(code) == _by_dis(code)
                n_read += 1
    assert n_read > 100
    many = compile("def f():\n" + "".join(f"    g{n}(h{n})\n" for n in range(600)), "many", "exec").co_consts[0]
    assert kernels._names(many) == {f"{letter}{n}" for n in range(600) for letter in "gh"}
