"""Recognize in a graph what its writer spelled out, and write it as Keras on TensorFlow does.

The exporters of JAX and PyTorch write activations, softmax, means, attention and layers as arithmetic: GELU as a
polynomial with cases, a mean as a sum and a quotient, attention with axes of size 1. Rules of relevance,
of DeepLIFT and of class activation maps know operations. What is recognized by its structure is verified by its values:
a function of one variable on a grid, everything else on random numbers. What does not match stays as it is.

Only graphs that ``attribution.graph.stablehlo`` made are changed. TensorFlow's own stay, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from attribution.graph.recognize import patterns
from attribution.graph.recognize.functions import find_functions
from attribution.graph.recognize.rewriting import Graph


def recognize(
    graph_def: tf.compat.v1.GraphDef, weights: Mapping[str, Any], outputs: Iterable[str]
) -> tf.compat.v1.GraphDef:
    """Return a graph with the same outputs, in which functions and layers are the operations of TensorFlow.

    Parameters
    ----------
    graph_def
        A graph that was lowered from StableHLO, without calls.
    weights
        Tensors of the graph's placeholders that are not inputs, by node name.
    outputs
        Names of the tensors that stay, by the same names; what they do not depend on may go.
    """
    graph = Graph(graph_def, weights, outputs)
    graph.apply(patterns.MEANS)
    find_functions(graph)
    for rules in patterns.LAYERS:
        graph.apply(rules)
    return graph.result()
