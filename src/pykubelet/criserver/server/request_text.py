"""Checks the strings of a request before anything is done with it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from msgspec import Struct

from pykubelet.base.errors import Invalid

_Request = TypeVar("_Request", bound=Message)


class ReceivedRequest(Struct, Generic[_Request], frozen=True):
    """A request as received, before its strings are checked."""

    message: _Request
    suspicious: bool
    """Whether its bytes contain a zero, which need not be in a string."""

    def checked(self) -> _Request:
        """Return the request. Invalid: a string contains a NUL."""
        if self.suspicious:
            check_text(self.message)
        return self.message


def received(request: type[_Request]) -> Callable[[bytes], ReceivedRequest[_Request]]:
    """Return the deserializer of a call. Most requests have no zero byte at all, so that checking them costs little."""
    return lambda data: ReceivedRequest(request.FromString(data), b"\0" in data)


def check_text(request: Message) -> None:
    """Check that no string of a request contains a NUL. Invalid names the field: paths, arguments and names cannot.

    The kernel ends strings at a NUL, so what is checked would not be what is used, and Python refuses such paths with
    a ValueError somewhere in the middle of the call.
    """
    for path in _with_nul(request):
        raise Invalid(f"{type(request).__name__}: {path} contains a NUL character")


def _with_nul(message: Message) -> Iterator[str]:
    for field, value in message.ListFields():
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            for text in (value,) if isinstance(value, str | bytes) else value:
                if (b"\0" if isinstance(text, bytes) else "\0") in text:
                    yield field.name
        elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            if isinstance(value, Message):
                yield from (f"{field.name}.{path}" for path in _with_nul(value))
            elif isinstance(value, Mapping):
                yield from _in_map(field.name, value)
            else:
                yield from _in_list(field.name, value)


def _in_list(name: str, items: Sequence[Message]) -> Iterator[str]:
    for number, item in enumerate(items):
        yield from (f"{name}[{number}].{path}" for path in _with_nul(item))


def _in_map(name: str, items: Mapping[object, object]) -> Iterator[str]:
    for key, item in items.items():
        if (isinstance(key, str) and "\0" in key) or (isinstance(item, str) and "\0" in item):
            yield f"{name}[{key!r}]"
        elif isinstance(item, Message):
            yield from (f"{name}[{key!r}].{path}" for path in _with_nul(item))
