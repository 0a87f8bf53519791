"""Handles of requests and prepared lists. They end themselves when nobody holds them any more."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from .logging import get_logger

if TYPE_CHECKING:
    from ._api import nixl_agent

logger = get_logger("_api")

_Self = TypeVar("_Self", bound="_Handle")


class _Handle:
    """A native object of an agent, which the handle keeps alive. `with` releases it at the end of the block."""

    __slots__ = ("_agent", "_handle", "_released")

    def __init__(self, agent: nixl_agent, value: int) -> None:
        self._agent = agent
        self._handle = value
        self._released = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}(0x{self._handle:x}, released={self._released})"

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _release_native(self) -> None:
        raise NotImplementedError

    def release(self) -> None:
        """Ends the native object; once is enough. A handle that cannot be released yet raises and stays as it is."""
        if self._released:
            return
        self._release_native()
        self._released = True

    def _release_quietly(self) -> bool:
        """True if the handle is released now; whatever hinders it goes to the log."""
        try:
            if not self._agent._inherited():
                self.release()
            return True
        except Exception as error:
            # At the end of the interpreter logging may be gone.
            with contextlib.suppress(Exception):
                logger.error("Releasing %r failed: %s", self, error)
            return False


class nixl_prepped_dlist_handle(_Handle):
    """A prepared list. Requests made from it live on after it is released."""

    __slots__ = ()

    def _release_native(self) -> None:
        self._agent.agent.releasedDlistH(self._handle)

    def __del__(self) -> None:
        # Without the attribute the constructor failed.
        if hasattr(self, "_released"):
            self._release_quietly()


class nixl_xfer_handle(_Handle):
    """A transfer request. Releasing a running one cancels it, or raises nixlRepostActiveError while it cannot be."""

    __slots__ = ()

    def _release_native(self) -> None:
        self._agent.agent.releaseXferReq(self._handle)

    def __del__(self) -> None:
        if hasattr(self, "_released") and not self._release_quietly():
            # The memory of a running transfer must not be reused; the agent tries again when it ends.
            self._agent._leaked_xfer_handles.append(self._handle)
