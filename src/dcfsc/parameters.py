"""The table of a class's parameters: allowed values, and when a parameter has no effect.

A class declares it in ``_table``; tables of its bases are inherited. :func:`check`
reads it before anything is computed; the command line and the tests read it too.
"""

from __future__ import annotations

import inspect
import os
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np

from dcfsc.errors import InputError, unknown_name

MOST, HUGE, TINY = 10**18, 1e18, 1e-30  # of counts; of weights: their squares fit float32
LARGEST_RATE = 1e3  # Adam moves every weight by about the rate, at every step


@dataclass(frozen=True)
class Kind:
    """The values that a parameter may have, with a description, and the conditions for its effect.

    ``test`` may raise an :class:`InputError` that says more.
    """

    test: Callable[[Any], bool]
    description: str
    names: tuple[str, ...] = ()
    conditions: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    def __or__(self, other: Kind) -> Kind:
        return Kind(
            lambda value: self.test(value) or other.test(value),
            f"{self.description}, or {other.description}",
            self.names + other.names,
            self.conditions + other.conditions,
        )

    def needs(self, other: str, *values: Any) -> Kind:
        """It has an effect only if ``other`` has one of the values; without values, any but None.

        ``other`` is a parameter, or a method's name with an underscore in front.
        """
        return replace(self, conditions=(*self.conditions, (other, values)))

    def check(self, name: str, value: Any) -> None:
        if self.test(value):
            return
        if isinstance(value, str) and len(self.names) > 1:
            raise unknown_name(name, value[:40], self.names)
        raise InputError(f"{name}={reprlib.repr(value)} is not allowed: {self.description}.")


def table(**kinds: Kind) -> Mapping[str, Kind]:
    return kinds


def whole(least: int, most: int = MOST) -> Kind:
    """Integers, including those of NumPy but not booleans."""
    description = f"an integer of at least {least} and at most {most:g}"
    return Kind(lambda v: _is(v, Integral) and least <= v <= most, description)


def real(least: float, most: float = HUGE) -> Kind:
    description = f"a number of at least {least:g} and at most {most:g}"
    return Kind(lambda v: _is(v, Real) and least <= v <= most, description)


def one_of(*names: str) -> Kind:
    description = f"one of {', '.join(map(repr, names))}" if len(names) > 1 else repr(names[0])
    return Kind(lambda v: isinstance(v, str) and v in names, description, names)


def instance_of(types: Any, description: str) -> Kind:
    return Kind(lambda v: isinstance(v, types), description)


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


NONE = instance_of(type(None), "None")
FLAG = instance_of((bool, np.bool_), "True or False")
POSITIVE = real(TINY)
SHARE = real(TINY, 1.0)
INFINITE = Kind(lambda v: _is(v, Real) and v == float("inf"), "infinity")
PATH = Kind(lambda v: isinstance(v, str | os.PathLike) and bool(os.fspath(v)), "a name or path")
CALLABLE = Kind(lambda v: callable(v) and not isinstance(v, type), "a callable object")
CALLABLES = Kind(
    lambda v: _is(v, Sequence) and not isinstance(v, str) and all(map(CALLABLE.test, v)),
    "a sequence of callables",
)
VERBOSE = FLAG | one_of("auto")
SEED = (
    whole(0, 2**32 - 1)
    | NONE
    | Kind(lambda v: v is np.random or isinstance(v, np.random.RandomState), "a RandomState")
)


def table_of(cls: type) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    for base in reversed(cls.__mro__):
        kinds |= vars(base).get("_table", {})
    return kinds


def check(owner: Any, *, effects: bool = True) -> None:
    """Raise an error for invalid values and, with ``effects``, for parameters without an effect."""
    check_call(type(owner), table_of(type(owner)), partial(getattr, owner), effects)


def check_call(
    made: Any, kinds: Mapping[str, Kind], get: Callable[[str], Any], effects: bool = True
) -> None:
    known = [p for p in inspect.signature(made).parameters.values() if p.name in kinds]
    for parameter in known:
        kinds[parameter.name].check(parameter.name, get(parameter.name))
    for parameter in known if effects else ():
        value = get(parameter.name)
        for other, values in kinds[parameter.name].conditions if differs(value, parameter) else ():
            there = get(other)() if other.startswith("_") else get(other)
            if there not in values if values else there is None:
                raise InputError(
                    f"{parameter.name}={reprlib.repr(value)} has no effect with "
                    f"{other.lstrip('_')}={there!r}; leave it out."
                )


def differs(value: Any, parameter: inspect.Parameter) -> bool:
    default = parameter.default
    return value is not default and (type(value) is not type(default) or bool(value != default))


class Checked:
    """A dataclass that is checked on construction."""

    def __post_init__(self) -> None:
        check(self)
