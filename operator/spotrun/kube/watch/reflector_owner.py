"""Caches that run their reflectors for as long as an `async with` block lasts."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, Self

from spotrun.kube.tasks import running
from spotrun.kube.watch.reflector import Reflector


class ReflectorOwner(ABC):
    """The base of such a cache."""

    @property
    @abstractmethod
    def reflectors(self) -> Mapping[str, Reflector[Any]]:
        """The reflectors, by their names in the metric of caches' age."""

    async def __aenter__(self) -> Self:
        self._running = AsyncExitStack()
        for reflector in self.reflectors.values():
            await self._running.enter_async_context(running(reflector.run()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._running.aclose()
