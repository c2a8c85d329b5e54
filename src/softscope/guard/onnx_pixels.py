"""Preprocessing inside an ONNX graph: uint8 images in; resized as by Pillow, scaled, channels in the model's order.

Pillow's resizing is linear in the pixels of each axis: two products with matrices that the graph makes from the size of
the image, in Pillow's own fixed-point numbers, rounded after each as Pillow rounds. So pixels equal those of Pillow 10
to 12; from 13 on it takes the vertical pass first where an image is tall, which moves some pixels by a level or two.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import SoftscopeError
from ..images import Preprocessing
from .onnx_tensor import Graph, Node, dimensions

IMAGE, RESIZED = "image", "softscope_resized"
_PRECISION = 2.0**22  # Pillow's weights are whole multiples of 1/2^22; sums of them are exact in float64


def take_images(graph: Graph, entry: Any, asked: Preprocessing) -> Preprocessing:
    """Put an input `image` [N, height, width, channels] in place of the float image `entry`; returns what it does.

    With a `size` images of any size are taken, all of a batch of the same, and the tensor `softscope_resized` holds
    their resized pixels [N, height, width, channels].
    """
    from onnx import TensorProto, helper

    shape = dimensions(entry)
    first = len(shape) == 4 and shape[1] in (1, 3)
    if len(shape) != 4 or not (first or shape[3] in (1, 3)) or entry.type.tensor_type.elem_type != TensorProto.FLOAT:
        raise SoftscopeError(
            f"the model takes {shape}, not float images of 1 or 3 channels", "Export it with --raw-input"
        )
    channels = int((shape[1] if first else shape[3]) or 3)
    way = replace(asked, channels=channels, layout="NCHW" if first else "NHWC")
    sides = shape[2:] if first else shape[1:3]
    if way.size is not None and any(side not in (None, size) for side, size in zip(sides, way.size)):
        raise SoftscopeError(f"the model takes {shape}, not images of {way.size}", "Give the size that it takes")
    begin = len(graph.graph.node)
    pixels = Node(graph, IMAGE)
    if way.size is not None:
        pixels = _resized(graph, pixels.double(), way)
        graph.graph.node.append(helper.make_node("Identity", [pixels.name], [RESIZED]))
    if way.bgr:
        pixels = graph.add("Gather", pixels, graph.whole(2, 1, 0), axis=3)
    scaled = graph.add("Mul", pixels.cast(np.float32), graph.constant(way.scale, np.float32))
    shifted = graph.add("Sub", scaled, graph.constant(way.mean, np.float32))
    ready = graph.add("Div", shifted, graph.constant(way.std, np.float32))
    if first:
        ready = graph.add("Transpose", ready, perm=[0, 3, 1, 2])
    graph.graph.node.append(helper.make_node("Identity", [ready.name], [entry.name]))
    graph.move_to_front(begin)
    graph.graph.input.remove(entry)
    free = [None, None] if way.size is not None else sides
    graph.graph.input.insert(0, helper.make_tensor_value_info(IMAGE, TensorProto.UINT8, [shape[0], *free, channels]))
    return way


def _resized(graph: Graph, image: Node, way: Preprocessing) -> Node:
    """Pixels [N, h, w, C] of an image [N, H, W, C], as `images.Decoder` makes them."""
    assert way.size is not None
    height, width = way.size
    if way.crop < 1 and not way.squash and height != width:
        raise SoftscopeError(f"crop {way.crop} to {width} x {height}", "Inside a graph only squares are cropped")
    shape = graph.add("Shape", image)
    high, wide = (graph.add("Gather", shape, graph.whole(axis)).double() for axis in (1, 2))
    channels_first = graph.add("Transpose", image, perm=[0, 3, 1, 2])
    # The horizontal pass first: pixels are rounded between the two, so that the order matters.
    across = _weights(graph, wide, width, *_place(graph, wide, high, width, width / height, way, ties=True), way)
    narrow = _rounded(channels_first.matmul(across))
    down = _weights(graph, high, height, *_place(graph, high, wide, height, height / width, way, ties=False), way)
    small = _rounded(down.transpose(0, 1).matmul(narrow))
    return graph.add("Transpose", small, perm=[0, 2, 3, 1])


def _place(
    graph: Graph, own: Node, other: Node, side: int, ratio: float, way: Preprocessing, *, ties: bool
) -> tuple[Any, Node]:
    """Where the first output pixel begins along an axis, and how many input pixels one output pixel spans.

    `own` and `other` are the image's sides along this axis and across it; `ties` says whether this axis is the short
    one where they are equal.
    """
    if way.squash:
        return 0.0, own / float(side)
    if way.crop == 1:
        kept = graph.add("Min", own, other * ratio)
        return ((own - kept) / 2.0).floor(), kept / float(side)
    short = float(int(side / way.crop))
    shorter = own <= other if ties else graph.add("Less", own, other)
    whole = graph.where(shorter, short, (own * (short / graph.add("Min", own, other))).floor())
    step = own / whole
    return graph.add("Round", (whole - float(side)) / 2.0) * step, step


def _weights(graph: Graph, length: Node, side: int, origin: Any, step: Node, way: Preprocessing) -> Node:
    """[length, side]: what each input pixel gives to each output pixel, a filter about its centre, columns sum to 1."""
    count = length.cast(np.int64).scalar()
    begin, one = graph.constant(0, np.int64), graph.constant(1, np.int64)
    places = graph.add("Range", begin, count, one).double().reshape(-1, 1) + 0.5
    centres = graph.constant(np.arange(side)[None] + 0.5) * step + origin
    distances = (places - centres).abs() / step.clamp(min=1.0)
    weights = _filter(graph, way.interpolation, distances)
    fractions = weights / weights.sum(0) * _PRECISION
    whole = graph.add("Sign", fractions) * (fractions.abs() + 0.5).floor()
    return whole / _PRECISION


def _filter(graph: Graph, name: str, x: Node) -> Node:
    if name == "bilinear":
        return (1.0 - x).clamp(min=0.0)
    if name == "bicubic":  # with a = -1/2, as Pillow has it
        near = (1.5 * x - 2.5) * x * x + 1.0
        far = (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5
        return graph.where(graph.add("Less", x, 1.0), near, graph.where(graph.add("Less", x, 2.0), far, 0.0))
    raise SoftscopeError(f"interpolation {name}: a graph can't resize this way", "Use bilinear or bicubic")


def _rounded(pixels: Node) -> Node:
    """To whole levels 0 to 255, halves up."""
    return (pixels + 0.5).floor().clamp(min=0.0, max=255.0)
