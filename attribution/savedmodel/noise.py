"""Files whose scores are others at every call are refused: a map would be of no single score."""

from __future__ import annotations

from collections.abc import Callable, Collection

import tensorflow as tf

from attribution.errors import BadInput, listed
from attribution.graph._tf_internals import operation_definition
from attribution.savedmodel._gradient_support import CHANGED, first_random
from attribution.savedmodel.inputs import random_arrays
from attribution.savedmodel.signature import Target


def check_not_random(
    target: Target, pure: tf.compat.v1.GraphDef, state: Collection[str], gives_file_scores: Callable[[], bool]
) -> None:
    """Refuse a file that gives other scores at every call, or that cannot be differentiated.

    Parameters
    ----------
    target
        The function.
    pure
        What its output needs of its graph, without control edges.
    state
        Nodes that read what the graph itself writes.
    gives_file_scores
        Returns whether the pure graph computes the scores of the file; called where all that seems random is state.

    Raises
    ------
    BadInput
        If it is refused.
    """
    if frame := next((node.name for node in pure.node if node.op in ("Enter", "RefEnter")), None):
        raise BadInput(
            f"'{target.path}' has a loop of TensorFlow 1's control flow ('{frame}'), which cannot be differentiated "
            "once loaded; export it after tf.compat.v1.enable_control_flow_v2()"
        )
    definitions = ((node.name, operation_definition(node.op)) for node in pure.node)
    if writer := next((name for name, one in definitions if one and any(arg.is_ref for arg in one.input_arg)), None):
        raise BadInput(
            f"'{target.path}' changes a reference variable of TensorFlow 1 where it computes ('{writer}'); export it "
            "for inference, without that change"
        )
    random = first_random(pure, state)
    if random is None or (first_random(pure, ()) is None and _leaves_state(target) and gives_file_scores()):
        return
    remedy = "export it for inference, with dropout and augmentation off"
    if random.endswith(CHANGED):
        remedy += ", and recurrent layers without stateful=True"
    if single := [name for name, spec in target.inputs.items() if spec.shape.rank in (None, 0)]:
        example = f"{{'{single[0]}': False}}, --given={single[0]}=False"
        remedy += f", or load it with given= for {listed(single)} where that turns them off, as in given={example}"
    raise BadInput(f"'{target.path}' gives other scores at every call, because of {random}; {remedy}")


def _leaves_state(target: Target) -> bool:
    """Tell whether a call on random inputs leaves every variable as it was, to the bit."""
    specs = target.inputs.values()
    if not all(spec.dtype.is_floating or spec.dtype.is_integer for spec in specs):
        return False
    variables = list(target.function.variables)
    before = [variable.read_value() for variable in variables]
    try:
        target.call(*map(tf.constant, random_arrays(specs, 2, 2)))
    except (TypeError, ValueError, tf.errors.OpError):
        return False
    pairs = zip(before, variables, strict=True)
    return all(bool(tf.reduce_all(one == variable.read_value())) for one, variable in pairs)
