import pytest

from tools.model_zoo import measure
from tools.model_zoo.families import FAMILIES

# A method of every way in which a model is queried; the other methods that have no oracle are held to the same by
# tests/attribution/explain/test_explain.py.
FEW_METHODS = ("gradient", "deeplift", "lrp_epsilon", "grad_cam", "ablation_cam", "kernel_shap")


@pytest.fixture(scope="session")
def check_family():
    """Return a function that fails where a cell of a family crashes, differs, or is not what its oracle says."""

    def check(name, *more):
        found = measure.measure(FAMILIES[name], (*FEW_METHODS, *more))["methods"]
        for method, cell in found.items():
            assert cell["status"] not in ("crashes", "differs", "rounding"), (method, cell)
            assert cell["status"] == "exact" or method not in measure.BY_TAPE + measure.BY_SCORES, (method, cell)
        return found

    return check
