"""The inner step of the scan as vector instructions: add up rows of tables at four positions, keep the largest.

Written as LLVM's own vectors, which numba compiles for whatever the machine has (AVX-512, AVX2, NEON). A plain loop
over channels is three times slower: the compiler can't know that what it writes doesn't overlap the tables.
"""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

_SIDE = 6  # the first convolution has 6 x 6 positions that count
_SQUARE = tuple(_SIDE * row + column for row in range(3) for column in range(3))
_WINDOW = (0, 1, _SIDE, _SIDE + 1)


def _pooling(channels: int, offsets: tuple[int, ...]) -> Any:
    """out[to : to + channels] = max(0, max over the 2x2 window at `at` of sum_j tables[patch[position + offset_j], j])

    as a function of (tables, patch, at, out, to); `tables` is [512, offsets, channels] in memory.
    """

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.FloatType(), channels)
        word = ir.IntType(64)
        tables, patch, out = (
            context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 1, 3)
        )
        at, to = arguments[2], arguments[4]

        def row(position: int, number: int) -> Any:
            place = builder.add(at, word(position + offsets[number]))
            bits = builder.load(builder.gep(patch, [place]))
            start = builder.add(builder.mul(bits, word(len(offsets) * channels)), word(number * channels))
            pointer = builder.bitcast(builder.gep(tables, [start]), vector.as_pointer())
            return builder.load(pointer, align=4)

        largest = ir.Constant(vector, [0.0] * channels)
        for position in _WINDOW:
            total = row(position, 0)
            for number in range(1, len(offsets)):
                total = builder.fadd(total, row(position, number))
            largest = builder.select(builder.fcmp_ordered(">", total, largest), total, largest)
        place = builder.bitcast(builder.gep(out, [to]), vector.as_pointer())
        builder.store(largest, place, align=4)
        return context.get_dummy_value()

    def declare(typing: Any, tables: Any, patch: Any, at: Any, out: Any, to: Any) -> Any:
        return types.void(tables, patch, types.int64, out, types.int64), build

    return intrinsic(declare)


add_and_pool = _pooling(32, _SQUARE)
look_up_and_pool = _pooling(16, (0,))
