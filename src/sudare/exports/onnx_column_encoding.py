"""Declared columns as inputs of an ONNX graph, and their encoding as its first nodes: the same matrix as `schema.encode` makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sudare.optional_packages import optional_package
from sudare.schema import Category, Label, Number
from sudare.schema.encodings import Encoding, encoded_bounds, shift_and_scale

OPSET: Final = 21


class Graph:
    """Nodes, constants and inputs of a graph that grows; every method returns the name of a new value."""

    def __init__(self) -> None:
        self.onnx = optional_package(
            "onnx", "Exporting to ONNX needs the package onnx.", "Install it: pip install 'sudare[onnx]'."
        )
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []

    def constant(self, values: Any) -> str:
        """An array, or texts."""
        name, array = f"constant_{len(self.constants)}", np.asarray(values)
        if array.dtype.kind in "UO":
            array = array.astype(object)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def input(self, name: str, kind: str) -> str:
        """A column of doubles, texts or whole numbers, one value a row."""
        element = {"number": "DOUBLE", "text": "STRING", "whole": "INT64"}[kind]
        value = self.onnx.helper.make_tensor_value_info(name, getattr(self.onnx.TensorProto, element), ["rows", 1])
        self.inputs.append(value)
        return name

    def node(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """The value of an operator."""
        output = f"value_{len(self.nodes)}" if name is None else name
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def doubles(self, value: str) -> str:
        """A value as doubles."""
        return self.node("Cast", value, to=self.onnx.TensorProto.DOUBLE)


def encoded_matrix(graph: Graph, features: Any, encoding: Encoding) -> str:
    """The matrix of the encoded features, which become inputs of the graph."""
    parts = [
        _number(graph, name, column, encoding) if isinstance(column, Number) else _category(graph, name, column)
        for name, column in features.items()
    ]
    return graph.node("Concat", *parts, axis=1)


def _number(graph: Graph, name: str, number: Number, encoding: Encoding) -> str:
    value = graph.input(name, "number")
    missing = graph.node("IsNaN", value)
    if number.stand_in is not None:
        value = graph.node("Where", missing, graph.constant(np.array([[number.stand_in]], dtype=np.float64)), value)
    value = _clipped(graph, value, number.low, number.high)
    if encoding == "binned":
        return _bins(graph, value, missing, number)
    shift, scale = (graph.constant(np.float64(each)) for each in shift_and_scale(number, encoding))
    value = graph.node("Div", graph.node("Sub", value, shift), scale)
    value = _clipped(graph, value, *encoded_bounds(number, encoding))
    return graph.node("Concat", value, graph.doubles(missing), axis=1) if number.has_indicator else value


def _clipped(graph: Graph, value: str, low: float, high: float) -> str:
    return graph.node("Clip", value, graph.constant(np.float64(low)), graph.constant(np.float64(high)))


def _bins(graph: Graph, value: str, missing: str, number: Number) -> str:
    """One at the bin of each number; missing ones have one of their own, the last, where that is declared."""
    edges = graph.constant(np.array([number.edges], dtype=np.float64).reshape(1, -1))
    above = graph.node("Cast", graph.node("GreaterOrEqual", value, edges), to=graph.onnx.TensorProto.INT64)
    position = graph.node("ReduceSum", above, graph.constant(np.array([1])), keepdims=1)
    count = len(number.edges) + 1
    if number.has_indicator:
        position = graph.node("Where", missing, graph.constant(np.array([[count]])), position)
        count += 1
    return graph.doubles(graph.node("Equal", position, graph.constant(np.arange(count)[np.newaxis])))


def _category(graph: Graph, name: str, column: Category | Label) -> str:
    """One at the place of each value. A value that is not declared makes its row NaN, unless others have a place."""
    levels: Sequence[Any] = column.levels
    is_text = column.value_kind == "text"
    value = graph.input(name, "text" if is_text else "whole")
    listed = np.array([levels], dtype=object) if is_text else np.array([[int(level) for level in levels]])
    places = graph.doubles(graph.node("Equal", value, graph.constant(listed)))
    total = graph.node("ReduceSum", places, graph.constant(np.array([1])), keepdims=1)
    if column.other_code is None:
        return graph.node("Div", places, total)
    others = np.zeros((1, len(levels)))
    others[0, column.other_code] = 1.0
    is_unknown = graph.node("Sub", graph.constant(np.float64(1)), total)
    return graph.node("Add", places, graph.node("Mul", is_unknown, graph.constant(others)))
