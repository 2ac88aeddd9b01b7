"""`requests.parquet`: the records of `requests.jsonl` as columns, for which pyarrow is needed (the extra `parquet`)."""

from __future__ import annotations

import io
import types
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from messages.errors import InputError
from messages.report import RequestRecord

if TYPE_CHECKING:
    import pyarrow as pa


def require_parquet() -> None:
    """Raise InputError where pyarrow is missing or does not work."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise InputError(
            f'--parquet needs pyarrow, which cannot be imported ({error}): pip install "aisim-actors[parquet]"'
        ) from None


def parquet_bytes(records: list[RequestRecord]) -> bytes:
    """Return the content of `requests.parquet`: a row per record, in their order.

    The columns are the fields of RequestRecord and have its types, whatever the records hold: integers are int64,
    numbers float64, histories lists of structs. `metadata` is JSON text, null where there is none.
    """
    import pyarrow.parquet

    fields = _fields(RequestRecord)
    table = pyarrow.Table.from_arrays(_columns(records, RequestRecord), schema=pyarrow.schema(fields))
    content = io.BytesIO()
    pyarrow.parquet.write_table(table, content, compression="zstd")
    return content.getvalue()


def _fields(struct: type[msgspec.Struct]) -> list[pa.Field]:
    """The columns of a struct, in its order."""
    import pyarrow

    hints = get_type_hints(struct)
    return [
        pyarrow.field(name, _arrow_type(inner), nullable=nullable)
        for name, (inner, nullable) in ((name, _unwrapped(hints[name])) for name in struct.__struct_fields__)
    ]


def _columns(structs: list[Any], struct: type[msgspec.Struct]) -> list[pa.Array]:
    hints = get_type_hints(struct)
    return [
        _array(list(map(attrgetter(name), structs)), _unwrapped(hints[name])[0]) for name in struct.__struct_fields__
    ]


def _array(values: list[Any], hint: Any) -> pa.Array:
    """The values of one column. Lists of structs become columns of their own, which is much faster than row by row."""
    import pyarrow

    if hint is Any:
        values = [None if value is None else msgspec.json.encode(value).decode() for value in values]
    if get_origin(hint) is list and issubclass(get_args(hint)[0], msgspec.Struct):
        (entry,) = get_args(hint)
        offsets = pyarrow.array([0, *accumulate(map(len, values))], pyarrow.int32())
        entries = list(chain.from_iterable(values))
        parts = pyarrow.StructArray.from_arrays(_columns(entries, entry), fields=_fields(entry))
        return pyarrow.ListArray.from_arrays(offsets, parts, type=_arrow_type(hint))
    return pyarrow.array(values, _arrow_type(hint))


def _arrow_type(hint: Any) -> pa.DataType:
    import pyarrow

    plain = {int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_(), str: pyarrow.string()}
    if hint is Any:
        return pyarrow.string()
    if hint in plain:
        return plain[hint]
    if get_origin(hint) is list:
        (entry,) = get_args(hint)
        return pyarrow.list_(pyarrow.field("element", _arrow_type(entry), nullable=False))
    return pyarrow.struct(_fields(hint))


def _unwrapped(hint: Any) -> tuple[Any, bool]:
    """A type without its None, and whether it had one; anything at all may be None too."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint, hint is Any
    (inner,) = (member for member in get_args(hint) if member is not type(None))
    return inner, True
