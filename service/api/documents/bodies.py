"""Bodies of requests that are in memory: how many bytes at once, and for how long they may take."""

from __future__ import annotations

import asyncio
from types import TracebackType

from starlette.types import Receive

from tunebook.service.api.problems.problems import Problem


class HeldBodies:
    """The bodies that all requests hold in memory at once, up to so many bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0

    def hold(self, size: int) -> None:
        """Counts more bytes. Raises Problem where that would be too many."""
        if self._bytes + size > self._most:
            raise Problem(
                "busy",
                f"the bodies of other requests fill the {self._most} bytes that there are for them",
                headers={"Retry-After": "1"},
            )
        self._bytes += size

    def release(self, size: int) -> None:
        """These are not held any more."""
        self._bytes -= size


class BodyReader:
    """One request's body, counted among all that are held until it is left."""

    def __init__(self, held: HeldBodies, limit: int) -> None:
        self._held = held
        self._limit = limit
        self._size = 0

    def __enter__(self) -> BodyReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.release(self._size)

    def add(self, size: int) -> None:
        """Counts bytes that are held from now on. Raises Problem."""
        self._held.hold(size)
        self._size += size

    async def read(self, receive: Receive, seconds: float) -> bytes | None:
        """The body; None where the client has gone. Raises Problem for one that is too large, or
        does not arrive in time."""
        task = asyncio.current_task()
        assert task is not None
        late = False

        def interrupt() -> None:
            nonlocal late
            late = True
            task.cancel()

        # A timer costs a hundredth of asyncio.wait_for, which makes a task of its own.
        timer = asyncio.get_running_loop().call_later(seconds, interrupt)
        try:
            return await self._read(receive)
        except asyncio.CancelledError:
            if not late:
                raise
            raise Problem(
                "request-timeout", "the body of the request did not arrive; send it again"
            ) from None
        finally:
            timer.cancel()

    async def _read(self, receive: Receive) -> bytes | None:
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            check_size(size, self._limit)
            self.add(len(chunk))
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks)


def check_size(size: int, limit: int) -> None:
    """Raises Problem for what is larger than the limit."""
    if size > limit:
        raise Problem(
            "too-large",
            f"the body is larger than the {limit} bytes that are accepted here",
            members={"limit": limit},
        )
