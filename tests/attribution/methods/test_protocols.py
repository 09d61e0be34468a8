"""The models and passes of the house keep the contracts, name by name and argument by argument."""

import inspect

import pytest

from attribution.export.methods import GraphQueries
from attribution.methods import protocols
from attribution.methods.queries import ModelQueries
from attribution.model.model import Backward, Model
from attribution_benchmarks.serving.model import ServedModel, _Backward

KEEPERS = [
    (protocols.ScoredModel, Model),
    (protocols.ScoredModel, ServedModel),
    (protocols.BackwardResult, Backward),
    (protocols.BackwardResult, _Backward),
    (protocols.ExportableQueries, ModelQueries),
    (protocols.ExportableQueries, GraphQueries),
]


def members(protocol):
    return {
        name: member
        for name, member in vars(protocol).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }


@pytest.mark.parametrize(("protocol", "keeper"), KEEPERS, ids=lambda each: each.__name__)
def test_every_keeper_has_all_that_the_contract_names(protocol, keeper):
    own = "" if issubclass(keeper, tuple) else inspect.getsource(keeper)
    for name, member in members(protocol).items():
        if isinstance(member, property):
            assert hasattr(keeper, name) or f"self.{name}" in own, name
        else:
            asked, given = (inspect.signature(each).parameters for each in (member, getattr(keeper, name)))
            assert list(given) == list(asked), name
            assert {key: value.default for key, value in given.items()} == {
                key: value.default for key, value in asked.items()
            }, name
    for name in getattr(protocol, "__annotations__", {}):
        assert hasattr(keeper, name) or f"self.{name}" in own, name
