"""Named tuples of arrays that kernels hand on by address.

Left alone, numba hands on each pointer, length and stride of each array as an argument of its own:
some three hundred for all that a scheduler knows, in each call of each kernel. Compiling that took
longer than compiling what the kernels do.
"""

# mypy: disable-error-code="no-untyped-call,untyped-decorator"
from __future__ import annotations

from hashlib import sha256
from typing import Any, TypeVar

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.imputils import impl_ret_borrowed
from numba.extending import NativeValue, lower_getattr_generic, register_model, typeof_impl, unbox

_Class = TypeVar("_Class", bound=type)
FIELDS: set[Any] = set()  # the structures that addresses are of


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
        fields = manager[type_.of].get_value_type()
        FIELDS.add(fields)
        super().__init__(manager, type_, fields.as_pointer())


def by_address(tuples: _Class) -> _Class:
    """Have kernels hand on a class of named tuples by address; they cannot make or return one."""
    known: dict[Any, ByAddress] = {}  # numba takes records apart anew each time, 1 ms for a core

    @typeof_impl.register(tuples)
    def typeof(value: Any, purpose: Any) -> ByAddress:
        alike = tuple([_what_tells_types_apart(one, purpose) for one in value])
        if alike not in known:
            kinds = [typeof_impl(one, purpose) for one in value]
            known[alike] = ByAddress(types.NamedTuple(kinds, tuples))
        return known[alike]

    return tuples


def _what_tells_types_apart(value: Any, purpose: Any) -> Any:
    if type(value) is np.ndarray:
        return value.dtype, value.ndim, value.flags.num
    return typeof_impl(value, purpose)


@unbox(ByAddress)
def _unbox(type_: ByAddress, given: Any, c: Any) -> NativeValue:
    """Take it apart beside the call from Python, for as long as that lasts."""
    native = c.unbox(type_.of, given)

    def clean_up() -> None:
        if native.cleanup is not None:
            native.cleanup()
        if c.context.enable_nrt:  # of an address nothing is counted
            c.context.nrt.decref(c.builder, type_.of, native.value)

    return NativeValue(
        cgutils.alloca_once_value(c.builder, native.value), native.is_error, clean_up
    )


@lower_getattr_generic(ByAddress)
def _field(context: Any, builder: Any, type_: ByAddress, address: Any, name: str) -> Any:
    number = type_.fields.index(name)
    field = builder.load(cgutils.gep_inbounds(builder, address, 0, number))
    return impl_ret_borrowed(context, builder, type_.types[number], field)
