"""Named tuples of arrays that kernels hand on by address.

Left alone, numba hands on each pointer, length and stride of each array as an argument of its own:
some three hundred for all that a scheduler knows, in each call of each kernel. Compiling that took
longer than compiling what the kernels do.
"""

# mypy: disable-error-code="no-untyped-call,untyped-decorator"
from __future__ import annotations

from hashlib import sha256
from typing import Any, TypeVar

from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import NativeValue, lower_getattr_generic, register_model, typeof_impl, unbox

_Class = TypeVar("_Class", bound=type)


class ByAddress(types.NamedTuple):
    """The type of such a tuple, in numba."""

    def __init__(self, of: types.NamedTuple) -> None:
        super().__init__(of.types, of.instance_class)
        self.of = of
        # Names of types become parts of names of functions.
        self.name = f"{of.instance_class.__name__}_{sha256(of.name.encode()).hexdigest()[:16]}"

    @property
    def key(self) -> str:
        """What tells types apart."""
        return self.name


@register_model(ByAddress)
class _Address(models.PrimitiveModel):
    def __init__(self, manager: Any, type_: ByAddress) -> None:
        super().__init__(manager, type_, manager[type_.of].get_value_type().as_pointer())


def by_address(tuples: _Class) -> _Class:
    """Have kernels hand on a class of named tuples by address; they cannot make or return one."""

    @typeof_impl.register(tuples)
    def typeof(value: Any, purpose: Any) -> ByAddress:
        kinds = [typeof_impl(one, purpose) for one in value]
        return ByAddress(types.NamedTuple(kinds, tuples))

    return tuples


@unbox(ByAddress)
def _unbox(type_: ByAddress, given: Any, c: Any) -> NativeValue:
    """Take it apart beside the call from Python, for as long as that lasts."""
    native = c.unbox(type_.of, given)
    return NativeValue(
        cgutils.alloca_once_value(c.builder, native.value), native.is_error, native.cleanup
    )


@lower_getattr_generic(ByAddress)
def _field(_context: Any, builder: Any, type_: ByAddress, address: Any, name: str) -> Any:
    return builder.load(cgutils.gep_inbounds(builder, address, 0, type_.fields.index(name)))
