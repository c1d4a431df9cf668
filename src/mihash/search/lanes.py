"""Sixty-four codes compared with a query at once.

Numba's own loops leave half the width of a processor's vectors unused here, so the comparison is written out for
LLVM as one vector of 64 lanes, which it cuts to what the processor has.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 64
_I32 = ir.IntType(32)


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    """Return a value in every lane."""
    none = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(none, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, none, ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes))


def _distances(context: Any, builder: Any, signature: Any, arguments: Any, lanes: int) -> Any:
    """Return the distances of as many codes as there are lanes to a query, as a vector."""
    many, questions = signature.args[:2]
    words, queries, q, start = arguments[:4]
    kind = ir.IntType(many.dtype.dtype.bitwidth)
    vector = ir.VectorType(kind, lanes)
    name = f"llvm.ctpop.v{lanes}i{kind.width}"
    declare: Any = cgutils.get_or_insert_function
    count = declare(builder.module, ir.FunctionType(vector, [vector]), name)
    asked = context.make_array(questions)(context, builder, queries).data
    total = None
    for number in range(many.count):
        column = context.make_array(many.dtype)(context, builder, builder.extract_value(words, number)).data
        codes = builder.bitcast(builder.gep(column, [start]), vector.as_pointer())
        loaded = builder.load(codes, align=kind.width // 8)
        place = builder.add(builder.mul(q, ir.Constant(q.type, many.count)), ir.Constant(q.type, number))
        query = _splat(builder, builder.load(builder.gep(asked, [place])), lanes)
        differing = builder.call(count, [builder.xor(loaded, query)])
        total = differing if total is None else builder.add(total, differing)
    return total


def _below(typing_context: Any, columns: Any, queries: Any, q: Any, start: Any, threshold: Any) -> Any:  # noqa: ARG001 -- Numba gives types
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total = _distances(context, builder, signature, arguments, LANES)
        kind, threshold = total.type.element, arguments[4]
        limit = builder.trunc(threshold, kind) if kind.width < threshold.type.width else threshold
        found = builder.icmp_unsigned("<", total, _splat(builder, limit, LANES))
        return builder.bitcast(found, ir.IntType(LANES))

    return types.uint64(columns, queries, types.int64, types.int64, types.int64), generate


below: Any = intrinsic(_below)
"""Return which of the 64 codes from ``start`` on are nearer to query q than a threshold, inside a kernel.

``below(columns, queries, q, start, threshold)``: a tuple of contiguous columns of words, queries (n, n_words) in
rows; bit i of the result stands for code ``start + i``.
"""


def _distance(typing_context: Any, columns: Any, queries: Any, q: Any, j: Any) -> Any:  # noqa: ARG001 -- Numba gives types
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total = _distances(context, builder, signature, arguments, 1)
        one = builder.extract_element(total, ir.Constant(_I32, 0))
        return builder.zext(one, ir.IntType(64)) if one.type.width < 64 else one

    return types.int64(columns, queries, types.int64, types.int64), generate


distance: Any = intrinsic(_distance)
"""Return the distance of code j to query q, inside a kernel: ``distance(columns, queries, q, j)``."""


def _lowest(typing_context: Any, word: Any) -> Any:  # noqa: ARG001 -- Numba gives types
    if not isinstance(word, types.Integer):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001 -- Numba gives four
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


lowest: Any = intrinsic(_lowest)
"""Return the number of the lowest bit that is set in a word other than 0, inside a kernel."""
