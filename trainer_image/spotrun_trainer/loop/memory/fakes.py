"""Models without memory: torch's fake tensors, which have only a shape, a type and a device."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils._pytree import tree_map


@cache
def fake_mode() -> FakeTensorMode:
    """Return the one mode that all fake tensors of this process belong to."""
    return FakeTensorMode(allow_non_fake_inputs=True)


def build_fake_models() -> None:
    """Make each parameter fake as a module gets it, so that a large model needs no memory.

    A parameter that torch has just allocated has no pages yet, because nothing was written to it.
    """

    def replace(_module: nn.Module, _name: str, parameter: nn.Parameter) -> nn.Parameter:
        return faked_parameter(parameter) if type(parameter) is nn.Parameter else parameter

    def apply(
        self: nn.Module, convert: Callable[[Tensor], Tensor], recurse: bool = True
    ) -> nn.Module:
        del recurse  # all of torch's own conversions go through the whole module
        _replace([self], convert)
        return self

    register_module_parameter_registration_hook(replace)  # type: ignore[arg-type]
    # torch's own method would swap fake tensors, but cannot: other objects have weak references to
    # them.
    nn.Module._apply = apply  # type: ignore[method-assign]  # noqa: SLF001


def faked_parameter(parameter: nn.Parameter) -> nn.Parameter:
    """Return a fake parameter like this one."""
    return nn.Parameter(faked(parameter.detach()), requires_grad=parameter.requires_grad)


def faked(value: Any) -> Any:  # noqa: ANN401 - what a dataset makes
    """Return a value with fake tensors in place of its tensors."""

    def fake(one: object) -> object:
        if not isinstance(one, Tensor) or isinstance(one, FakeTensor):
            return one
        with fake_mode():
            return torch.empty_strided(one.shape, one.stride(), dtype=one.dtype)

    return tree_map(fake, value)


def fake_module(module: nn.Module) -> None:
    """Replace all tensors of a module that are not fake yet."""
    _replace([module], lambda one: one if isinstance(one, FakeTensor) else faked(one.detach()))


@contextmanager
def in_bf16(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Give modules bf16 weights within the block."""
    modules = list(modules)
    held = [(part, dict(part._parameters), dict(part._buffers)) for part in _parts(modules)]  # noqa: SLF001
    _replace(modules, lambda one: one.detach().bfloat16() if one.is_floating_point() else one)
    try:
        yield
    finally:
        for part, parameters, buffers in held:
            part._parameters.update(parameters)  # noqa: SLF001
            part._buffers.update(buffers)  # noqa: SLF001


def _parts(modules: Iterable[nn.Module]) -> list[nn.Module]:
    return list({id(part): part for one in modules for part in one.modules()}.values())


def _replace(modules: Iterable[nn.Module], convert: Callable[[Tensor], Tensor]) -> None:
    """Replace tensors; a tensor that several modules share is replaced by the same one."""
    done: dict[int, Tensor] = {}
    for part in _parts(modules):
        for name, parameter in part._parameters.items():  # noqa: SLF001 - all of them, as torch does
            if parameter is None:
                continue
            if id(parameter) not in done:
                with torch.no_grad():
                    new = convert(parameter)
                is_same = new is parameter
                done[id(parameter)] = (
                    parameter
                    if is_same
                    else nn.Parameter(new, requires_grad=parameter.requires_grad)
                )
            part._parameters[name] = done[id(parameter)]  # type: ignore[assignment]  # noqa: SLF001
        for name, buffer in part._buffers.items():  # noqa: SLF001
            if buffer is not None:
                done.setdefault(id(buffer), convert(buffer))
                part._buffers[name] = done[id(buffer)]  # noqa: SLF001
