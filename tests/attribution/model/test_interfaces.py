"""Models and queries of a server and of a graph are called like those of a file, argument by argument."""

import inspect

from attribution.export._graph import GraphQueries
from attribution.methods.queries import ModelQueries
from attribution.model.model import Model
from attribution_benchmarks.serving import ServedModel


def public(owner):
    return {
        name: member
        for name, member in vars(owner).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }


def parameters(function):
    return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}


def test_a_served_model_is_called_like_a_model():
    shared = public(ServedModel).keys() & public(Model).keys()
    assert {"forward", "backward", "multipliers", "relevance", "scores", "layer", "explained_input"} <= shared
    for name in shared:
        member = public(Model)[name]
        assert isinstance(member, property) or parameters(member) == parameters(getattr(ServedModel, name)), name


def test_queries_of_an_exported_graph_are_called_like_those_of_arrays():
    both = public(GraphQueries).keys() & public(ModelQueries).keys()
    assert {"scores", "targets", "input_gradient", "layer_gradient", "relevance", "multipliers"} <= both
    for name in both:
        member = public(GraphQueries)[name]
        if not isinstance(member, property):
            assert parameters(member) == parameters(getattr(ModelQueries, name)), name
