"""The pykka runtimes: cooperative (in the caller's thread) and threaded, with one base class of actors for both.

An actor handles one `Envelope` at a time and returns a `Reply`. It calls no other actor and shares no state: all it
wants to happen is in the reply, which the coordinator carries out.
"""

from __future__ import annotations

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


class CooperativeRef(pykka.ActorRef[Any]):
    """Of an actor that works in the thread of whoever asks it: the answer to an envelope is there at once."""

    def __init__(self, actor: CooperativeActor) -> None:
        super().__init__(actor)
        # The bound method keeps the actor alive: an ActorRef alone would not.
        self._work = actor.work

    def ask(self, message: Any, *, block: bool = True, timeout: float | None = None) -> Any:
        if not block or type(message) is not Envelope:
            return super().ask(message, block=block, timeout=timeout)
        if self.actor_stopped.is_set():
            raise pykka.ActorDeadError(f"{self} not found")
        return self._work(message)


class CooperativeInbox:
    """Hands what pykka itself sends to its actor at once; keeps it only until the actor has started."""

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
    def _create_future() -> pykka.Future[Any]:
        return pykka.ThreadingFuture()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._actor_ref = CooperativeRef(self)

    @staticmethod
    def _create_actor_inbox() -> CooperativeInbox:
        return CooperativeInbox()

    def work(self, message: Any) -> Any:
        """Handle an envelope and return the answer."""
        try:
            return self.on_receive(message)
        except Exception:
            self._stop()
            raise

    def _start_actor_loop(self) -> None:
        self._actor_loop_setup()
        cast(CooperativeInbox, self.actor_inbox).hand_to(self._work_for_pykka)

    def _work_for_pykka(self, envelope: Any) -> None:
        try:
            answer = self._handle_receive(envelope.message)
        except Exception:
            self._stop()
            if envelope.reply_to is None:
                raise
            envelope.reply_to.set_exception()
        else:
            if envelope.reply_to is not None:
                envelope.reply_to.set(answer)


class ThreadedActor(pykka.ThreadingActor):
    """One daemon thread an actor; the coordinator asks and waits."""

    use_daemon_thread = True


_RUNTIMES: dict[str, type[pykka.Actor]] = {"cooperative": CooperativeActor, "threads": ThreadedActor}


def start_actor(runtime: Runtime, actor_class: type[ActorT], *args: Any, **kwargs: Any) -> pykka.ActorRef[ActorT]:
    """Start an actor of `actor_class` on a runtime; the arguments are those of its constructor."""
    concrete = cast("type[ActorT]", type(actor_class.__name__, (actor_class, _RUNTIMES[runtime]), {}))
    return concrete.start(*args, **kwargs)
