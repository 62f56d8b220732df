"""How kernels are compiled, and where what was compiled is kept. Imported when the first is: numba takes 0.3 s."""

import functools
import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import numba
from numba import types
from numba.extending import overload

import congenial.sampling.kernels.no_linear_algebra
import congenial.sampling.kernels.packed_type  # noqa: F401  numba learns of packed values
from congenial.sampling.kernels.kept_code import ENDING, is_known, may_be_kept
from congenial.sampling.kernels.machine_code import ALIEN, FROM_C, MachineCode, NotAloneError

Code = Callable[..., Any]


def drop_stale(kernels: Path, *shapes: Path) -> None:
    """Delete compiled kernels that were made from other sources than those that are here: nobody will ask for them.

    Versions of numba that are not known look at a kernel's own file only: one that calls a changed kernel of another
    file would go on with the old one, and a kept kernel whose argument types were renamed cannot even be read.

    Parameters
    ----------
    kernels, shapes : Path
        The folder of the kernels, and those of the types which they take.
    """
    state, kept = hashlib.sha256(str(numba.__version__).encode()), kernels / "__pycache__"
    for path in sorted(path for folder in (kernels, *shapes) for path in folder.glob("*.py")):
        state.update(hashlib.sha256(path.read_bytes()).digest())
    stamp = kept / "kernels.sha256"
    with suppress(OSError):  # a folder that cannot be written has nothing to keep
        if stamp.exists() and stamp.read_text(encoding="ascii") == state.hexdigest():
            return
        for path in [path for ending in (".nbi", ".nbc", ENDING) for path in kept.glob(f"*{ending}")]:
            path.unlink(missing_ok=True)
        kept.mkdir(exist_ok=True)
        stamp.write_text(state.hexdigest(), encoding="ascii")


_HERE = Path(__file__).parent
_SHAPES = [_HERE, *(_HERE.parent / folder for folder in ("contraction", "look_ahead", "share_out"))]


@functools.cache
def _freshen(folder: Path) -> None:
    drop_stale(folder, *_SHAPES)


def compile_kernel(function: FunctionType) -> Code:
    """Compile what Python calls; keep the result on disk where a folder can be written."""
    _freshen(Path(function.__code__.co_filename).parent)
    if is_known():
        from congenial.sampling.kernels.inner_code import compile_to_call

        return cast("Code", compile_to_call(function))
    return cast("Code", _by_numba_alone(function, nogil=True))  # without the interpreter's lock


def _by_numba_alone(function: FunctionType, **options: Any) -> Any:
    if may_be_kept():
        with suppress(RuntimeError):  # no writable cache folder: compile anew in each process
            return numba.njit(function, cache=True, **options)
    return numba.njit(function, **options)


def compile_code(function: FunctionType, arguments: Sequence[object]) -> MachineCode:
    """Compile what Python calls for arguments of one kind, to code that needs neither numba nor Python."""
    from congenial.sampling.kernels.known_types import KernelCompiler

    _freshen(Path(function.__code__.co_filename).parent)
    options: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": KernelCompiler}
    dispatcher, kinds = numba.njit(function, **options), tuple(map(_type_of, arguments))
    dispatcher.compile(kinds)
    made = dispatcher.overloads[kinds]
    named = {one.name for one in made.library._final_module.functions if one.is_declaration}
    alien = sorted(name for name in named - FROM_C - {*ALIEN} if not name.startswith("llvm."))
    if alien or made.library.has_dynamic_globals:  # addresses of this process
        raise NotAloneError(f"{function.__name__} needs {', '.join(alien) or 'what is in this process alone'}")
    return MachineCode(
        made.fndesc.llvm_func_name, _described(made.signature.return_type), made.library._get_compiled_object()
    )


def _type_of(argument: object) -> types.Type:
    """Return numba's type of an argument, the same for arrays that may be written and that may not."""
    kind: types.Type = numba.typeof(argument)  # type: ignore[no-untyped-call]
    return kind.copy(readonly=False) if isinstance(kind, types.Array) else kind


def _described(kind: types.Type) -> str:
    """Return what a kernel returns, in words of `MachineCode`."""
    if isinstance(kind, types.BaseTuple):
        return f"({', '.join(map(_described, kind.types))})"  # type: ignore[attr-defined]
    return "bool" if kind == types.boolean else str(kind)


def compile_inner(function: FunctionType) -> Code:
    """Compile what other kernels call: it gets no way in from Python, and a place of its own on disk."""
    function.__qualname__ += ".inner"
    _freshen(Path(function.__code__.co_filename).parent)
    dispatcher = _compiled_to_link(function)
    _forget_constants(dispatcher)
    return cast("Code", dispatcher)


def _compiled_to_link(function: FunctionType) -> Any:
    if is_known():
        from congenial.sampling.kernels.inner_code import compile_to_link

        return compile_to_link(function)
    return _by_numba_alone(function, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _forget_constants(dispatcher: Any) -> None:
    """Let calls with 0 and with any other number share one compiled function: each constant would have its own."""
    call = dispatcher.get_call_template

    def call_template(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return call(tuple(map(types.unliteral, arguments)), keywords)

    dispatcher.get_call_template = call_template


def compile_either(choose: FunctionType, bind: Callable[[FunctionType], FunctionType]) -> Code:
    """Return a function for kernels that differs by type: `choose` is given types, and returns what to compile."""

    def called(*_: object) -> object:
        raise TypeError(f"{choose.__name__} is for compiled code")

    @functools.wraps(choose)
    def chosen(*kinds: Any) -> FunctionType:
        return bind(choose(*kinds))

    called.__name__, called.__doc__ = choose.__name__, choose.__doc__
    options: Any = {}
    if is_known():
        from congenial.sampling.kernels.inner_code import InnerCompiler

        options["pipeline_class"] = InnerCompiler
    # strict: the annotations would have to agree as well
    overload(called, strict=False, jit_options=options)(chosen)
    return called


def is_tuple_type(kind: object) -> bool:
    """Return whether a type of the compiler's is that of a tuple."""
    return isinstance(kind, types.BaseTuple)
