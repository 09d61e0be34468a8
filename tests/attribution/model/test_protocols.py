"""Models and queries implement the interface that methods use, name by name and argument by argument."""

import inspect

import pytest

from attribution.export._graph import GraphQueries
from attribution.methods.queries import ModelQueries
from attribution.model.model import Model
from attribution.model.protocols import ScoredModel
from attribution_benchmarks.serving import ServedModel


def public(owner):
    return {
        name: member
        for name, member in vars(owner).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }


def parameters(function):
    return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize("model", [Model, ServedModel])
def test_models_implement_the_protocol(model):
    source = inspect.getsource(model)
    for name, member in public(ScoredModel).items():
        if isinstance(member, property):
            assert hasattr(model, name) or f"self.{name}" in source, name
        else:
            assert parameters(getattr(model, name)) == parameters(member), name
    for name in ScoredModel.__annotations__:
        assert hasattr(model, name) or f"self.{name}" in source, name


def test_queries_of_an_exported_graph_are_called_like_those_of_arrays():
    both = public(GraphQueries).keys() & public(ModelQueries).keys()
    assert {"scores", "targets", "input_gradient", "layer_gradient", "relevance", "multipliers"} <= both
    for name in both:
        member = public(GraphQueries)[name]
        if not isinstance(member, property):
            assert parameters(member) == parameters(getattr(ModelQueries, name)), name
