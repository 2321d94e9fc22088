"""Bytes of MSBC: encoder, bounded decoder, digests.

    "MSBC"  u16 version  u16 sections
    table   one (4-byte tag, u32 length) for each section, in the order of `SECTIONS`
    bodies  contiguous, in the same order
    digest  BLAKE2b-256 of everything before it

Numbers are little-endian; `varint` is LEB128 of at most 32 bits. The first nine sections are what the program means;
`program_digest` covers them alone. Positions and source text, the last two, may change without changing the digest.
Decoding never trusts a count: a count is compared with the bytes that are left before anything is allocated for it.
"""

from __future__ import annotations

import struct
from _blake2 import blake2b
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..dtypes import dtype_from_name

if TYPE_CHECKING:
    from .bytecode import Program

MAGIC = b"MSBC"
MSBC_VERSION = 2
DIGEST_BYTES = 32
HEADER_BYTES = 8

MEANING = ("PROG", "SYMB", "CNST", "KERN", "CODE", "PARM", "CAPT", "FUNC", "BIND")
SECTIONS = (*MEANING, "SRCS", "POSN")
PREFIX_BYTES = HEADER_BYTES + 8 * len(SECTIONS)

MAX_INSTRUCTIONS = 0xFFFF  # a target operand must be able to name each of them
MAX_ENTRIES = 0x10000  # of a table that operands index
MAX_TUPLE_DEPTH = 16
_POSITION = struct.Struct("<HIHH")
_T = TypeVar("_T")


class Unbound:
    """The value of a local that is not yet assigned; there is one, `UNBOUND`. Reading it raises UnboundLocalError."""

    _only: Unbound | None = None

    def __new__(cls) -> Unbound:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "UNBOUND"

    def __reduce__(self) -> tuple:
        return (Unbound, ())


UNBOUND = Unbound()


class Malformed(Exception):
    """Bytes that do not decode, or a value that has no encoding; the text says which."""


# --- writing


def _varint(value: int) -> bytes:
    if not 0 <= value <= 0xFFFFFFFF:
        raise Malformed(f"{value} does not fit 32 bits")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _blob(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _text(value: str) -> bytes:
    return _blob(value.encode("utf-8", "surrogatepass"))


def _list(items: Iterable[_T], encode: Callable[[_T], bytes]) -> bytes:
    parts = [encode(item) for item in items]
    return _varint(len(parts)) + b"".join(parts)


def encode_constant(value: object, depth: int = 0) -> bytes:
    """Tag byte and payload. Raises Malformed for values that cannot be constants."""
    kind = type(value)
    if value is None:
        return b"N"
    if kind is bool:
        return b"T" if value else b"F"
    if kind is int:
        size = (value.bit_length() + 8) // 8  # type: ignore[attr-defined]
        return b"i" + _blob(value.to_bytes(size, "little", signed=True))  # type: ignore[attr-defined]
    if kind is float:
        return b"f" + struct.pack("<d", value)
    if kind is complex:
        return b"c" + struct.pack("<dd", value.real, value.imag)  # type: ignore[attr-defined]
    if kind is str:
        return b"s" + _text(value)  # type: ignore[arg-type]
    if value is Ellipsis:
        return b"."
    if kind is tuple:
        if depth >= MAX_TUPLE_DEPTH:
            raise Malformed(f"constant tuples nest deeper than {MAX_TUPLE_DEPTH}")
        return b"(" + _list(value, lambda item: encode_constant(item, depth + 1))  # type: ignore[arg-type]
    if isinstance(value, np.dtype):
        return b"d" + _text(str(value))
    if value is UNBOUND:
        return b"U"
    raise Malformed(f"a {kind.__name__} cannot be a constant")


def _encode_code(program: Program) -> bytes:
    words: list[int] = [len(program.code) & 0xFFFF, len(program.code) >> 16]
    for index, ins in enumerate(program.code):
        if not (0 <= ins.op <= 0xFF and 0 <= ins.dtype <= 0xFF and 0 <= ins.shape <= 0xFFFF):
            raise Malformed(f"instruction {index:#04x}: opcode, dtype or shape does not fit its field")
        words += (ins.op | ins.dtype << 8, ins.shape, len(ins.args))
        for word in ins.args:
            if not -0x8000 <= word <= 0xFFFF:
                raise Malformed(f"instruction {index:#04x}: operand {word} does not fit 16 bits")
            words.append(word & 0xFFFF)
    try:
        return struct.pack(f"<{len(words)}H", *words)
    except struct.error:
        raise Malformed("an instruction has more than 65535 operands, or the program too many instructions") from None


def _encode_positions(program: Program) -> bytes:
    parts = [_varint(len(program.positions))]
    for p in program.positions:
        # far-out columns of generated one-line sources are clamped, not refused
        parts.append(_POSITION.pack(p.function, p.line, min(p.column, 0xFFFF), min(p.end_column, 0xFFFF)))
    return b"".join(parts)


def encode_sections(program: Program) -> dict[str, bytes]:
    """The body of every section. Raises Malformed where a value has no encoding."""
    try:
        return {
            "PROG": _text(program.name) + _varint(program.n_regs),
            "SYMB": _list(program.symbols, _text),
            "CNST": _list(program.constants, encode_constant),
            "KERN": _list(program.kernels, lambda k: struct.pack("<H", k)),
            "CODE": _encode_code(program),
            "PARM": _list(program.params, lambda p: _text(p.name) + _varint(p.default + 1) + _varint(p.kind)),
            "CAPT": _list(program.captures, lambda c: _text(c.scope) + _text(c.module) + _text(c.name)),
            "FUNC": _list(program.functions, lambda f: _text(f.module) + _text(f.qualname) + _text(f.digest)),
            "BIND": _list(program.bindings,
                          lambda b: _text(b.scope) + _text(b.module) + _text(b.path) + _text(b.meaning)),
            "SRCS": _list(program.functions,
                          lambda f: _text(f.file) + _varint(f.first_line) + _list(f.lines, _text)),
            "POSN": _encode_positions(program),
        }
    except struct.error as error:
        raise Malformed(f"a number does not fit its field: {error}") from None


def encode_program(program: Program) -> bytes:
    """The `.msbc` file of a program: equal programs have equal bytes. Raises Malformed."""
    sections = encode_sections(program)
    parts = [MAGIC, struct.pack("<HH", MSBC_VERSION, len(SECTIONS))]
    parts += [struct.pack("<4sI", tag.encode(), len(sections[tag])) for tag in SECTIONS]
    parts += [sections[tag] for tag in SECTIONS]
    body = b"".join(parts)
    return body + file_digest(body)


def file_digest(body: bytes) -> bytes:
    """The 32 bytes that end a file whose other bytes are `body`."""
    return blake2b(body, digest_size=DIGEST_BYTES, person=b"msbc-file").digest()


def program_digest(program: Program) -> str:
    """32 hexadecimal digits over what the program means: not over positions, source text, file names."""
    sections = encode_sections(program)
    state = blake2b(digest_size=16, person=b"msbc-program")
    state.update(struct.pack("<H", MSBC_VERSION))
    for tag in MEANING:
        state.update(struct.pack("<4sI", tag.encode(), len(sections[tag])))
        state.update(sections[tag])
    return state.hexdigest()


def seal(data: bytes) -> bytes:
    """`data` with a fresh digest in its last 32 bytes; shorter than a header and a digest, it comes back as it is."""
    data = bytes(data)
    if len(data) < HEADER_BYTES + DIGEST_BYTES:
        return data
    body = data[:-DIGEST_BYTES]
    return body + file_digest(body)


# --- reading


class Reader:
    """A cursor over one section that never reads past its end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise Malformed(f"{size} bytes wanted at offset {self.at}, {len(self.data) - self.at} are left")
        piece = self.data[self.at:end]
        self.at = end
        return piece

    def varint(self) -> int:
        value = shift = 0
        while True:
            if self.at >= len(self.data):
                raise Malformed(f"a number is cut off at offset {self.at}")
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                raise Malformed(f"a number at offset {self.at} is longer than 32 bits")
        if value > 0xFFFFFFFF or (byte == 0 and shift):
            raise Malformed(f"a number that ends at offset {self.at} is not in its shortest form")
        return value

    def count(self, smallest: int = 1, most: int = 0xFFFFFFFF) -> int:
        """A count of items that take at least `smallest` bytes each, `most` of them."""
        value = self.varint()
        left = len(self.data) - self.at
        if value * smallest > left or value > most:
            raise Malformed(f"{value} items announced, {left} bytes are left, at most {most} make sense")
        return value

    def text(self, errors: str = "strict") -> str:
        piece = self.take(self.varint())
        try:
            return piece.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            raise Malformed(f"text that ends at offset {self.at} is not UTF-8 ({error.reason})") from None

    def struct(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))

    def finish(self) -> None:
        if self.at != len(self.data):
            raise Malformed(f"{len(self.data) - self.at} bytes too many")


def decode_constant(reader: Reader, depth: int = 0) -> object:
    """The constant at the cursor. Raises Malformed."""
    tag = reader.take(1)
    simple = _SIMPLE.get(tag, reader)
    if simple is not reader:
        return simple
    if tag == b"i":
        piece = reader.take(reader.varint())
        value = int.from_bytes(piece, "little", signed=True)
        if len(piece) != (value.bit_length() + 8) // 8:
            raise Malformed(f"an integer that ends at offset {reader.at} is not in its shortest form")
        return value
    if tag == b"f":
        return reader.struct("<d")[0]
    if tag == b"c":
        return complex(*reader.struct("<dd"))
    if tag == b"s":
        return reader.text("surrogatepass")
    if tag == b"(":
        if depth >= MAX_TUPLE_DEPTH:
            raise Malformed(f"constant tuples nest deeper than {MAX_TUPLE_DEPTH}")
        return tuple([decode_constant(reader, depth + 1) for _ in range(reader.count())])
    if tag == b"d":
        return _decode_dtype(reader.text())
    raise Malformed(f"unknown constant tag {tag!r} at offset {reader.at - 1}")


_SIMPLE: dict[bytes, object] = {b"N": None, b"T": True, b"F": False, b".": Ellipsis, b"U": UNBOUND}


def _decode_dtype(name: str) -> np.dtype:
    if len(name) > 16:
        raise Malformed(f"unknown dtype {name[:16]!r}...")
    try:
        dtype = dtype_from_name(name)
    except ImportError:
        raise Malformed(f"dtype {name!r} needs the package ml_dtypes") from None
    except Exception:  # np.dtype raises TypeError, ValueError and SyntaxError, by spelling
        raise Malformed(f"unknown dtype {name!r}") from None
    if (dtype.kind not in "biufc" and name != "bfloat16") or str(dtype) != name:
        raise Malformed(f"dtype {name!r} is not numeric, or not in its normal spelling")
    return dtype


def _decode_code(reader: Reader) -> list[tuple[int, tuple[int, ...], int, int]]:
    size = len(reader.data)
    if size < 4 or size % 2:
        raise Malformed("the section is no sequence of 16-bit words")
    words = struct.unpack(f"<{size // 2}H", reader.take(size))
    total, limit = words[0] | words[1] << 16, len(words)
    if total > MAX_INSTRUCTIONS or total * 3 > limit - 2:
        raise Malformed(f"{total} instructions announced, {limit - 2} words are there")
    code = []
    at = 2
    for index in range(total):
        start = at + 3
        if start > limit or start + words[at + 2] > limit:
            raise Malformed(f"instruction {index:#04x} is cut off")
        head = words[at]
        at = start + words[start - 1]
        code.append((head & 0xFF, words[start:at], head >> 8, words[start - 2]))
    if at != limit:
        raise Malformed(f"{limit - at} words too many")
    return code


def _decode_section(tag: str, reader: Reader) -> Any:
    if tag == "PROG":
        return reader.text(), reader.varint()
    if tag == "SYMB":
        return tuple([reader.text() for _ in range(reader.count(1, MAX_ENTRIES))])
    if tag == "CNST":
        return tuple([decode_constant(reader) for _ in range(reader.count(1, MAX_ENTRIES))])
    if tag == "KERN":
        return reader.struct(f"<{reader.count(2, MAX_ENTRIES)}H")
    if tag == "CODE":
        return _decode_code(reader)
    if tag == "PARM":
        return [(reader.text(), reader.varint() - 1, reader.varint()) for _ in range(reader.count(3, MAX_ENTRIES))]
    if tag == "CAPT":
        return [(reader.text(), reader.text(), reader.text()) for _ in range(reader.count(3, MAX_ENTRIES))]
    if tag == "FUNC":
        return [(reader.text(), reader.text(), reader.text()) for _ in range(reader.count(3, MAX_ENTRIES))]
    if tag == "BIND":
        return [(reader.text(), reader.text(), reader.text(), reader.text())
                for _ in range(reader.count(4, MAX_ENTRIES))]
    if tag == "SRCS":
        return [(reader.text(), reader.varint(), tuple([reader.text() for _ in range(reader.count())]))
                for _ in range(reader.count(3, MAX_ENTRIES))]
    total = reader.count(_POSITION.size, MAX_INSTRUCTIONS)
    return list(_POSITION.iter_unpack(reader.take(total * _POSITION.size)))


def decode_sections(data: bytes) -> tuple[dict[str, Any], list[str]]:
    """What each section holds, and every fault of the container; a section with a fault is left out."""
    if len(data) < HEADER_BYTES:
        return {}, [f"Invalid MSBC file: {len(data)} bytes are too short for a header ({HEADER_BYTES} bytes)"]
    if data[:4] != MAGIC:
        return {}, [f"Invalid MSBC file: it starts with {data[:4].hex(' ')}, not with 4d 53 42 43 (MSBC)"]
    version, n_sections = struct.unpack_from("<HH", data, 4)
    if version != MSBC_VERSION:
        return {}, [f"Invalid MSBC file: version {version}, this prebake reads version {MSBC_VERSION}; "
                    "make the bytecode again with this prebake"]
    faults = []
    if n_sections != len(SECTIONS):
        return {}, [f"Invalid MSBC file: {n_sections} sections announced, version {MSBC_VERSION} has {len(SECTIONS)}"]
    if len(data) < PREFIX_BYTES + DIGEST_BYTES:
        return {}, [f"Invalid MSBC file: truncated inside its section table ({len(data)} bytes)"]
    if file_digest(data[:-DIGEST_BYTES]) != data[-DIGEST_BYTES:]:
        faults.append("Invalid MSBC file: digest mismatch, the bytes were changed or cut off after they were written")
    found: dict[str, Any] = {}
    at, end = PREFIX_BYTES, len(data) - DIGEST_BYTES
    for number, tag in enumerate(SECTIONS):
        raw_tag, size = struct.unpack_from("<4sI", data, HEADER_BYTES + 8 * number)
        if raw_tag != tag.encode():
            faults.append(f"Invalid MSBC file: section {number} is called {raw_tag!r}, expected {tag!r}")
        if at + size > end:
            faults.append(f"Invalid MSBC file: section {tag} wants {size} bytes, {max(end - at, 0)} are left")
            return found, faults
        reader = Reader(data[at:at + size])
        at += size
        try:
            value = _decode_section(tag, reader)
            reader.finish()
            found[tag] = value
        except Malformed as error:
            faults.append(f"Invalid MSBC file: section {tag}: {error}")
    if at != end:
        faults.append(f"Invalid MSBC file: {end - at} bytes after the last section")
    return found, faults
