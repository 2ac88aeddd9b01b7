"""The pykka runtimes: cooperative (in the caller's thread) and threaded, with one base class of actors for both.

An actor handles one `Envelope` at a time and returns a `Reply`. It calls no other actor and shares no state: all it
wants to happen is in the reply, which the coordinator carries out.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, Literal, TypeVar, cast

import pykka

from messages.envelope import Envelope, Reply

Runtime = Literal["cooperative", "threads"]
Handler = Callable[[Any, Any, Envelope], Reply]
HandlerT = TypeVar("HandlerT", bound=Callable[..., Reply])
ActorT = TypeVar("ActorT", bound="SimActor")
ExcInfo = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


def handles(*kinds: type) -> Callable[[HandlerT], HandlerT]:
    """Mark a method as the handler of messages of these types."""

    def mark(method: HandlerT) -> HandlerT:
        method.__dict__["handled_kinds"] = kinds
        return method

    return mark


class SimActor(pykka.Actor):
    """Base of every actor. Handlers are methods `(message, envelope) -> Reply` marked with `handles`."""

    handlers: ClassVar[dict[type, str]] = {}
    """Message type -> name of the method that handles it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        found = dict(cls.handlers)
        for name, method in vars(cls).items():
            for kind in getattr(method, "handled_kinds", ()):
                found[kind] = name
        cls.handlers = found

    def __init__(self) -> None:
        super().__init__()
        self._bound: dict[type, Callable[[Any, Envelope], Reply]] = {
            kind: getattr(self, name) for kind, name in self.handlers.items()
        }

    def on_receive(self, message: Any) -> Reply:
        return self._bound[type(message.message)](message.message, message)


class CooperativeFuture(pykka.Future[Any]):
    """The answer to a message that has been handled by the time `ask` returns."""

    def __init__(self) -> None:
        # There is one per message, and nothing of what pykka sets up is used by `get`.
        self._value: Any = None
        self._error: BaseException | None = None

    def get(self, *, timeout: float | None = None) -> Any:
        if self._error is not None:
            raise self._error
        return self._value

    def set(self, value: Any = None) -> None:
        self._value = value

    def set_exception(self, exc_info: ExcInfo | None = None) -> None:
        self._error = (exc_info or sys.exc_info())[1]


class CooperativeInbox:
    """Hands what is put into it to its actor at once; keeps it only until the actor has started."""

    def __init__(self) -> None:
        self._early: deque[Any] = deque()
        self.put: Callable[[Any], None] = self._early.append

    def hand_to(self, work: Callable[[Any], None]) -> None:
        """Hand over what came early, and from now on everything."""
        self.put = work
        while self._early:
            work(self._early.popleft())

    def get(self) -> Any:
        return self._early.popleft()

    def empty(self) -> bool:
        return not self._early


class CooperativeActor(pykka.Actor):
    """Runs in the thread of whoever asks it, and stops at the first error.

    Unlike pykka's own loop it lets KeyboardInterrupt through, to end the run.
    """

    @staticmethod
    def _create_actor_inbox() -> CooperativeInbox:
        return CooperativeInbox()

    _create_future = staticmethod(CooperativeFuture)

    def _start_actor_loop(self) -> None:
        self._actor_loop_setup()
        # The bound method keeps the actor alive: an ActorRef alone would not.
        cast(CooperativeInbox, self.actor_inbox).hand_to(self._work)

    def _work(self, envelope: Any) -> None:
        message, future = envelope.message, envelope.reply_to
        try:
            # Envelopes are nearly all there is; what pykka itself sends takes the long way.
            answer = self.on_receive(message) if type(message) is Envelope else self._handle_receive(message)
        except Exception:
            self._stop()
            if future is None:
                raise
            future.set_exception()
        else:
            if future is not None:
                future.set(answer)


class ThreadedActor(pykka.ThreadingActor):
    """One daemon thread an actor; the coordinator asks and waits."""

    use_daemon_thread = True


_RUNTIMES: dict[str, type[pykka.Actor]] = {"cooperative": CooperativeActor, "threads": ThreadedActor}


def start_actor(runtime: Runtime, actor_class: type[ActorT], *args: Any, **kwargs: Any) -> pykka.ActorRef[ActorT]:
    """Start an actor of `actor_class` on a runtime; the arguments are those of its constructor."""
    concrete = cast("type[ActorT]", type(actor_class.__name__, (actor_class, _RUNTIMES[runtime]), {}))
    return concrete.start(*args, **kwargs)
