"""What numba has found out about the types of operations is remembered while kernels are compiled.

numba asks for the type of every operation in every round of its inference, and tries some thirty candidates each time,
with and without constants. Kernels have few kinds of operations: of 4,800 questions 250 are different, and answering
each of them once takes about a quarter off what compiling a batch of areas does.
"""

# mypy: allow-untyped-calls

from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from numba import types
from numba.core import typed_passes, untyped_passes
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import PassManager

_known: dict[tuple[Any, ...], Any] = {}


@contextmanager
def _remembering(context: Any) -> Iterator[None]:
    """Let a typing context answer from memory; compiling goes on in one thread at a time, by numba's own lock."""
    if "resolve_function_type" in vars(context):  # one kernel is compiled within another
        yield
        return
    resolve = context.resolve_function_type

    def resolve_once(function: Any, arguments: Any, named: Any) -> Any:
        if isinstance(function, types.Dispatcher | types.RecursiveCall):
            return resolve(function, arguments, named)  # may be in the middle of being compiled
        # Candidates that are added later make another type of the function, and another question.
        question = (context._lookup_global(function), function, tuple(arguments), tuple(dict(named).items()))
        try:
            return _known[question]
        except (KeyError, TypeError):  # not asked yet, or an argument such as a slice, which nothing is filed under
            answer = resolve(function, arguments, named)
        if answer is not None and _can_be_filed(question):
            _known[question] = answer
        return answer

    context.resolve_function_type = resolve_once
    try:
        yield
    finally:
        del context.resolve_function_type


def _can_be_filed(question: tuple[Any, ...]) -> bool:
    try:
        hash(question)
    except TypeError:
        return False
    return True


_PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.InlineClosureLikes,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.NopythonRewrites,
    typed_passes.IRLegalization,
    typed_passes.AnnotateTypes,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)


class KernelCompiler(Compiler):
    """numba's compiler, with a memory, and without passes for what kernels do not have.

    These are `with`, branches that a type rules out, loops over tuples of several types and calls that are written out
    in place: to look for them took about a tenth of what compiling did.
    """

    def define_pipelines(self) -> list[PassManager]:
        """Return the passes."""
        manager = PassManager("kernel")
        for one in _PASSES:
            manager.add_pass(one, one._name)
        manager.finalize()
        return [manager]

    def compile_extra(self, function: FunctionType) -> Any:
        """Compile a function."""
        with _remembering(self.state.typingctx):
            return super().compile_extra(function)
