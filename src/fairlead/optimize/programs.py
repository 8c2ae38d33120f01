"""Kernels become machine code only as parts of what Python calls, all at once.

Left alone, numba optimises a function and turns it into machine code by itself, again inside each
function that calls it, and so on up: the functions of a scheduler some ten times over. Here what
only kernels call stays LLVM's intermediate code, a part; what Python calls is a program, which is
linked from its parts and optimised once. On disk a part is kept with those that it calls.
"""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from collections.abc import Container, Iterable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import typed_passes as typed
from numba.core import untyped_passes as untyped
from numba.core.caching import Cache, CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, compile_result
from numba.core.compiler_machinery import PassManager

from fairlead.optimize.by_address import FIELDS


class _Library(JITCodeLibrary):
    """Functions that are optimised together, not each before the others are known."""

    def add_ir_module(self, module: Any) -> None:
        """Take a module, and tell LLVM that tuples handed on by address do not change.

        So what is read of them inside a loop can be read before it.
        """
        for function in module.functions:
            for argument in function.args:
                fields = getattr(argument.type, "pointee", None)
                if isinstance(fields, ir.LiteralStructType) and fields in FIELDS:
                    argument.attributes.add("noalias")
                    argument.attributes.add("captures(none)")
                    argument.attributes.align = 8
                    argument.attributes.dereferenceable = _size(fields, self._codegen)
        super().add_ir_module(module)

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _link(self, codes: Iterable[bytes]) -> None:
        for code in codes:
            self._final_module.link_in(llvm.parse_bitcode(code))


@cache
def _size(fields: Any, codegen: Any) -> int:
    size: int = fields.get_abi_size(codegen.target_data)
    return size


class Part(_Library):
    """A kernel as intermediate code; `codes` are kept ones, its own and those of what it calls."""

    def __init__(self, codegen: Any, name: str, codes: Iterable[bytes] = ()) -> None:
        super().__init__(codegen, name)
        self.codes = dict.fromkeys(codes)
        self._finalized = bool(self.codes)

    @property
    def codegen(self) -> Any:
        """Stands for what would know addresses."""
        return self

    def set_env(self, _name: str, _environment: Any) -> None:
        """Do nothing: there is no machine code to tell where its environment is."""

    def get_pointer_to_function(self, _name: str) -> int:
        """Return 0: there is no machine code."""
        self._ensure_finalized()
        return 0

    def finalize(self) -> None:
        """Tidy it, and know the code of what it calls."""
        cleaning = llvm.create_new_module_pass_manager()
        # Tuples of arrays are taken apart; in another order it takes twice as long.
        cleaning.add_instruction_combine_pass()
        cleaning.add_sroa_pass()
        cleaning.add_instruction_combine_pass()
        cleaning.add_global_dead_code_eliminate_pass()
        cleaning.run(self._final_module, self._codegen._pass_builder())
        self._finalize_dynamic_globals()
        self.codes = dict.fromkeys([_shared(self._final_module)])
        for library in self._linking_libraries:
            self.codes |= dict.fromkeys(_codes_of(library))
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """Return the code of all, for functions that are compiled as numba does."""
        self._ensure_finalized()
        if self._shared_module is None:
            whole = Part(self._codegen, self.name)
            whole._link(self.codes)
            self._shared_module = whole._final_module
            _have_linkage(self._shared_module, "linkonce_odr")
        return self._shared_module


class Program(_Library):
    """What Python calls, with all that it calls."""

    def finalize(self) -> None:
        """Link, optimise, and make machine code."""
        self._raise_if_finalized()
        module = self._final_module
        own = {function.name for function in module.functions if not function.is_declaration}
        codes: dict[bytes, None] = {}
        for library in self._linking_libraries:
            codes |= dict.fromkeys(_codes_of(library))
        self._link(codes)
        _have_linkage(self._final_module, "internal", own)
        # Loops over 64 buckets or queues at a time become vectors; straight code need not.
        builder = self._codegen._pass_builder(opt=2, loop_vectorize=True, slp_vectorize=False)
        builder.getModulePassManager().run(self._final_module, builder)
        self._final_module.verify()
        self._finalize_final_module()


def _codes_of(library: Any) -> Iterable[bytes]:
    if isinstance(library, Part):
        library._ensure_finalized()
        return library.codes
    return [_shared(library._get_module_for_linking().clone())]


def _shared(module: Any) -> bytes:
    """Return a module's code, with all of it free to be linked more than once, in any order."""
    _have_linkage(module, "weak_odr")
    code: bytes = module.as_bitcode()
    return code


def _have_linkage(module: Any, linkage: str, but: Container[str] = ()) -> None:
    """Change how functions are linked that other modules may see."""
    for function in module.functions:
        is_seen = function.linkage not in (llvm.Linkage.internal, llvm.Linkage.private)
        if is_seen and not function.is_declaration and function.name not in but:
            function.linkage = linkage


@cache
def _passes() -> PassManager:
    """Return numba's passes, but for those that change nothing in what allocates nothing.

    Left out are closures, `with`, literal arguments and loops over them, what goes inline as
    numba's code, and expressions of whole arrays.
    """
    passes = PassManager("kernel")
    for one in (
        untyped.TranslateByteCode,
        untyped.FixupArgs,
        untyped.IRProcessing,
        untyped.RewriteSemanticConstants,
        untyped.DeadBranchPrune,
        untyped.GenericRewrites,
        untyped.ReconstructSSA,
        untyped.DeadBranchPrune,
        typed.NopythonTypeInference,
        typed.PreLowerStripPhis,
        typed.IRLegalization,
        typed.NativeLowering,
        typed.NoPythonBackend,
    ):
        passes.add_pass(one, one._name)
    passes.finalize()
    return passes


class _LibraryCompiler(CompilerBase):
    library: type[_Library]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # Each use of an array would look for what was registered since a moment ago.
        self.state.targetctx.refresh = int

    def define_pipelines(self) -> list[PassManager]:
        """Return the passes that this compiler runs."""
        return [_passes()]

    def compile_extra(self, function: Any) -> Any:
        """Compile a function into a library of this kind."""
        codegen = self.state.targetctx.codegen()
        self.state.library = self.library(codegen, function.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(function)


class PartCompiler(_LibraryCompiler):
    """Compiles a kernel that only kernels call."""

    library = Part


class ProgramCompiler(_LibraryCompiler):
    """Compiles a kernel that Python calls."""

    library = Program


class _PartOnDisk(CompileResultCacheImpl):
    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"part-{super().get_filename_base(fullname, abiflags)}"

    def reduce(self, result: Any) -> Any:
        result.fndesc.typemap = result.fndesc.calltypes = None
        return list(result.library.codes), result.fndesc, result.environment, result.signature

    def rebuild(self, context: Any, kept: Any) -> Any:
        codes, description, environment, signature = kept
        library = Part(context.codegen(), description.qualname, codes)
        return compile_result(
            target_context=context,
            typing_context=context.typing_context,
            library=library,
            environment=environment,
            entry_point=context.get_executable(library, description, environment),
            fndesc=description,
            signature=signature,
            objectmode=False,
            lifted=(),
            reload_init=[],
            referenced_envs=(),
        )


class PartCache(Cache):
    """Keeps parts on disk, beside the program of the same function."""

    _impl_class = _PartOnDisk  # type: ignore[assignment]


class ProgramCache(FunctionCache):
    """Keeps programs on disk, and loads them without what numba needs to compile others.

    That would take half a second and 50 MB of each process, in which mostly nothing is compiled;
    where something is, numba readies itself then.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the program for a signature, or None."""
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)
