"""Ways to damage a file: by bytes, and by what its bytes mean (lengths, numbers, JSON)."""

import re
from collections.abc import Callable
from random import Random

Mutator = Callable[[Random, bytes], bytes]
_HUGE = (0, 1, 0x7F, 0xFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1)
_NUMBERS = (
    b"-1",
    b"0",
    b"1e999",
    b"1e308",
    b"9" * 400,
    b"2147483648",
    b"18446744073709551616",
    b"NaN",
    b"0.5",
    b"null",
)
_VALUES = (
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'""',
    b"-1",
    b"1e999",
    b'"\\ud800"',
    b'"\\u0000"',
    b'"\\u001b[31mred"',
    b"[[]]",
    b'"' + b"[" * 100_000 + b'"',
)


def flip_bits(random: Random, content: bytes) -> bytes:
    """One to eight bits, anywhere."""
    changed = bytearray(content)
    for _ in range(random.randint(1, 8)):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def flip_early_bits(random: Random, content: bytes) -> bytes:
    """Bits among the first 200 bytes, where headers are."""
    changed = bytearray(content)
    for _ in range(random.randint(1, 4)):
        changed[random.randrange(min(200, len(changed)))] ^= 1 << random.randrange(8)
    return bytes(changed)


def cut(random: Random, content: bytes) -> bytes:
    """Only a beginning is left."""
    return content[: random.randrange(len(content))]


def cut_inside(random: Random, content: bytes) -> bytes:
    """A piece is missing."""
    start = random.randrange(len(content))
    return content[:start] + content[start + random.randint(1, 64) :]


def insert(random: Random, content: bytes) -> bytes:
    """Bytes that do not belong there."""
    start = random.randrange(len(content) + 1)
    piece = random.choice([b"\x00" * 8, b"\xff" * 8, random.randbytes(16), content[:64], b"[" * 100_000])
    return content[:start] + piece + content[start:]


def overwrite_length(random: Random, content: bytes) -> bytes:
    """Eight, four or two bytes become a number that is too large, too small or negative."""
    width = random.choice((8, 4, 2))
    start = random.choice((0, 4, 8, random.randrange(len(content))))
    number = random.choice(_HUGE) & ((1 << 8 * width) - 1)
    return content[:start] + number.to_bytes(width, random.choice(("little", "big"))) + content[start + width :]


def change_number(random: Random, content: bytes) -> bytes:
    """A number written in text becomes another one."""
    places = list(re.finditer(rb"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", content))
    if not places:
        return flip_bits(random, content)
    place = random.choice(places)
    return content[: place.start()] + random.choice(_NUMBERS) + content[place.end() :]


def change_text(random: Random, content: bytes) -> bytes:
    """A piece of text between quotes, or what follows a colon, becomes something else."""
    places = list(re.finditer(rb'"[^"\\]{0,40}"|(?<=:)\s*[^,:{}\[\]]{1,30}', content))
    if not places:
        return insert(random, content)
    place = random.choice(places)
    return content[: place.start()] + random.choice(_VALUES) + content[place.end() :]


def same_length_header(random: Random, content: bytes) -> bytes:
    """For files that begin with the length of a JSON header: the header is changed and its length set right."""
    length = int.from_bytes(content[:8], "little")
    if not 2 <= length <= len(content) - 8:
        return change_text(random, content)
    header = random.choice((change_text, change_number, cut_inside))(random, content[8 : 8 + length])
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def nest(random: Random, content: bytes) -> bytes:
    """JSON that is nested far too deep."""
    depth = random.choice((70, 2_000, 100_000))
    return random.choice((b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth))


def empty_or_garbage(random: Random, content: bytes) -> bytes:
    """Nothing, noise, or zeros."""
    return random.choice(
        (b"", b"\x00" * len(content), random.randbytes(200), b"\x1f\x8b" + content, b"PK\x03\x04" + content)
    )


MUTATORS: tuple[Mutator, ...] = (
    flip_bits,
    flip_early_bits,
    cut,
    cut_inside,
    insert,
    overwrite_length,
    change_number,
    change_text,
    same_length_header,
    nest,
    empty_or_garbage,
)
