"""Kernels that only kernels call are kept as LLVM's own code: whoever calls them optimises and translates them.

numba optimises and translates a function together with all that it calls. What is called four deep went through that
five times, a third of what a first batch of areas takes; only the last time was of use.
"""

# mypy: allow-untyped-calls

from contextlib import suppress
from types import FunctionType
from typing import Any

import numba
from llvmlite import binding
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import compile_result

from congenial.sampling.kernels.kept_code import may_be_kept
from congenial.sampling.kernels.known_types import KernelCompiler
from congenial.sampling.kernels.made_from import digest_of

_KIND = "inner"


class _NoEnvironment:
    """Where numba would leave Python objects for code to find: kernels have none, and this code is in no memory yet."""

    def set_env(self, name: str, environment: object) -> None:
        """Leave it."""


class _InnerLibrary(JITCodeLibrary):
    """The code of one inner kernel, to be linked into others."""

    @property
    def codegen(self) -> Any:
        """Asked for environments alone."""
        return _NoEnvironment()

    def _optimize_final_module(self) -> None:
        """Leave it to the caller's library."""

    def _finalize_final_module(self) -> None:
        """Check what is linked, and hand nothing to the machine."""
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def get_pointer_to_function(self, _: str) -> int:
        """Nothing here can be called from Python."""
        return 0

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """Return what is kept on disk."""
        return self.name, _KIND, self._final_module.as_bitcode()


class InnerCompiler(KernelCompiler):
    """The compiler of what only kernels call."""

    def compile_extra(self, function: FunctionType) -> Any:
        """Compile into a library of our own."""
        self.state.library = _InnerLibrary(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)


class _InnerCacheImpl(CompileResultCacheImpl):
    def rebuild(self, context: Any, kept: tuple[Any, ...]) -> Any:
        """Return what `serialize_using_object_code` gave as a library again."""
        (name, kind, code), description, environment, signature, is_object, lifted, types, loaded, referenced = kept
        if kind != _KIND:
            return super().rebuild(context, kept)
        library = _InnerLibrary(context.codegen(), name)
        library._final_module = binding.parse_bitcode(code)
        library._finalize_final_module()
        return compile_result(
            target_context=context,
            typing_context=context.typing_context,
            library=library,
            environment=environment,
            entry_point=context.get_executable(library, description, environment),
            fndesc=description,
            type_annotation=types,
            signature=signature,
            objectmode=is_object,
            lifted=lifted,
            reload_init=loaded,
            referenced_envs=referenced,
        )


class _KernelCache(FunctionCache):
    """Where numba keeps a kernel, found by all that it is made from: numba itself looks at its own file alone."""

    def __init__(self, function: FunctionType) -> None:
        super().__init__(function)
        self._digest = digest_of(vars(function)["written"])

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(signature, codegen), self._digest)


class _InnerCache(_KernelCache):
    _impl_class: Any = _InnerCacheImpl


def _kept(dispatcher: Any, cache: type[_KernelCache]) -> Any:
    """Let what is compiled be kept on disk, where a folder can be written and is not everybody's."""
    if may_be_kept():
        with suppress(RuntimeError):  # no writable cache folder: compile anew in each process
            dispatcher._cache = cache(dispatcher.py_func)
    return dispatcher


def compile_to_call(function: FunctionType) -> Any:
    """Return a function for Python to call, without the interpreter's lock."""
    return _kept(numba.njit(function, nogil=True, pipeline_class=KernelCompiler), _KernelCache)


def compile_to_link(function: FunctionType) -> Any:
    """Return a function for other kernels to call."""
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return _kept(numba.njit(function, nogil=True, pipeline_class=InnerCompiler, **options), _InnerCache)
