"""Released linear models, additive models and networks as ONNX: inputs are the declared columns, and predictions those of `predict`."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
from scipy.special import logit

from sudare.dossier.released_numbers import layers_of
from sudare.errors import NotReleasable
from sudare.exports.onnx_column_encoding import OPSET, Graph, encoded_matrix
from sudare.privacy import Release

# Version of the file format that the operators of OPSET came with.
_IR_VERSION: Final = 10


def onnx_model(release: Release) -> bytes:
    """The file. Raise NotReleasable where the release is no linear or additive model or network of declared columns, and ExtraMissing without onnx."""
    model = release.model()
    is_network = hasattr(model, "hidden_layer_sizes") and hasattr(model, "parameters_")
    if not is_network and not hasattr(model, "coef_"):
        raise NotReleasable(
            f"A {release.learner} cannot be exported to ONNX.",
            "Linear models, additive models and networks can; show others with `sudare show`.",
        )
    if model.schema_digest_ is None:
        raise NotReleasable(
            f"This {release.learner} was fitted to an array, so that its columns have no names.",
            "Fit it with a schema, and release it again.",
        )
    graph = Graph()
    matrix = encoded_matrix(graph, model.declared_.features, getattr(model, "used_encoding", model.encoding))
    scores = _network_scores(graph, matrix, model) if is_network else _linear_scores(graph, matrix, model)
    outputs = (
        _classes(graph, scores, model, is_network)
        if hasattr(model, "classes_")
        else _number(graph, scores, model, is_network)
    )
    return _file(graph, release, outputs)  # fmt: skip


def _linear_scores(graph: Graph, matrix: str, model: Any) -> str:
    coefficients = np.atleast_2d(model.coef_).astype(np.float64)
    intercepts = np.atleast_1d(model.intercept_).astype(np.float64)
    product = graph.node("MatMul", matrix, graph.constant(np.ascontiguousarray(coefficients.T)))
    scores = graph.node("Add", product, graph.constant(intercepts))
    return _unclipped(graph, scores) if getattr(model, "method_", "") == "boosting" else scores


def _unclipped(graph: Graph, sums: str) -> str:
    """`additive_classifier.unclipped_log_odds`: ±(|s| + log(1 + e^−|s|) − log 2)."""
    size = graph.node("Abs", sums)
    rest = graph.node("Add", graph.constant(np.float64(1)), graph.node("Exp", graph.node("Neg", size)))
    grown = graph.node("Add", size, graph.node("Log", rest))
    return graph.node("Mul", graph.node("Sign", sums), graph.node("Sub", grown, graph.constant(np.float64(np.log(2)))))


def _network_scores(graph: Graph, matrix: str, model: Any) -> str:
    layers = layers_of(model)
    for place, (weights, bias) in enumerate(layers):
        product = graph.node("MatMul", matrix, graph.constant(np.asarray(weights, dtype=np.float64)))
        matrix = graph.node("Add", product, graph.constant(np.asarray(bias, dtype=np.float64)))
        if place < len(layers) - 1:
            matrix = graph.node("Max", matrix, graph.constant(np.float64(0)))
    return matrix


def _number(graph: Graph, scores: str, model: Any, is_network: bool) -> list[Any]:
    if is_network:
        low, high = model.target_bounds_
        scores = graph.node("Clip", scores, graph.constant(np.float64(-1)), graph.constant(np.float64(1)))
        middle, half = (graph.constant(np.float64(each)) for each in ((low + high) / 2, (high - low) / 2))
        graph.node("Add", middle, graph.node("Mul", half, scores), name="prediction")
    else:
        # Coefficients of a released regression are in the unit of its target, and answers within its bounds.
        bounds = (graph.constant(np.float64(bound)) for bound in model.target_bounds_)
        graph.node("Clip", scores, *bounds, name="prediction")
    info, element = graph.onnx.helper.make_tensor_value_info, graph.onnx.TensorProto
    return [info("prediction", element.DOUBLE, ["rows", 1])]


def _classes(graph: Graph, scores: str, model: Any, is_network: bool) -> list[Any]:
    classes, info, element = model.classes_, graph.onnx.helper.make_tensor_value_info, graph.onnx.TensorProto
    # Classes that are likelier than usual, where the model answers these.
    rates = model.base_rates_ if getattr(model, "decision", "") == "balanced" else np.full(len(classes), 0.5)
    if not is_network and len(classes) == 2:
        above = graph.node("Greater", scores, graph.constant(np.float64(logit(rates[1]))))
        code = graph.node("Squeeze", graph.node("Cast", above, to=element.INT64), graph.constant(np.array([1])))
    else:
        compared = scores
        if np.ptp(rates):
            # In the order of probabilities over base rates, because the sum that divides them is the same for all classes of a row.
            compared = graph.node("Div", graph.node("Sigmoid", scores), graph.constant(rates))
        code = graph.node("ArgMax", compared, axis=1, keepdims=0)
    is_text = classes.dtype.kind in "UO"
    labels = graph.constant(classes if is_text else classes.astype(np.int64))
    graph.node("Gather", labels, code, name="prediction")
    outputs = [info("prediction", element.STRING if is_text else element.INT64, ["rows"])]
    if hasattr(model, "predict_proba"):
        _probabilities(graph, scores, len(classes), is_network)
        outputs.append(info("probabilities", element.DOUBLE, ["rows", len(classes)]))
    return outputs


def _probabilities(graph: Graph, scores: str, classes: int, is_network: bool) -> None:
    if is_network:
        graph.node("Softmax", scores, name="probabilities", axis=1)
        return
    chances = graph.node("Sigmoid", scores)
    if classes == 2:
        first = graph.node("Sub", graph.constant(np.float64(1)), chances)
        graph.node("Concat", first, chances, name="probabilities", axis=1)
        return
    total = graph.node("ReduceSum", chances, graph.constant(np.array([1])), keepdims=1)
    graph.node("Div", chances, total, name="probabilities")


def _file(graph: Graph, release: Release, outputs: list[Any]) -> bytes:
    onnx = graph.onnx
    made = onnx.helper.make_graph(graph.nodes, "sudare", graph.inputs, outputs, graph.constants)
    model = onnx.helper.make_model(
        made, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=_IR_VERSION, producer_name="sudare",
        doc_string=f"A released {release.learner}: {release.guarantee}.",
    )  # fmt: skip
    told = {"sudare_digest": release.digest or "", "sudare_guarantee": json.dumps(release.guarantee.to_dict())}
    onnx.helper.set_model_props(model, told)
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString(deterministic=True)
    return content
