"""Fill a family's slots for a scene: a random depth-first search that never does the same work twice.

The rules are those of CLEVR's question generator (Johnson et al., CVPR 2017): a described object must be
unique, outputs must differ where the family says so, an answer given too often is refused, a relation must
matter. Sets are bit sets, and a choice that failed rules out every choice with the same output.
"""

from __future__ import annotations

import random

from clevr_xai.generation.families import Family, Step
from clevr_xai.generation.scene_index import Description, SceneIndex
from clevr_xai.vocabulary import ATTRIBUTES, RELATIONS

_NOTHING_NAMED = (None,) * len(ATTRIBUTES)
_POSITION = {name: position for position, name in enumerate(ATTRIBUTES)}
_VALUES = tuple((*values, None) for values in ATTRIBUTES.values())

TRIVIAL_ODDS = 9  # useful relations offered for each that filters nothing: at most a tenth of all

Choice = tuple  # (relation or None, description or None)


def overrepresented(counts: dict, answer) -> bool:
    """Return whether an answer was given too often among the answers of its family so far.

    More than 1.1 times as often as the second most frequent one, or more than five times the median, which
    counts as at least 5.
    """
    ranked = sorted(counts.values())
    median = max(ranked[len(ranked) // 2], 5)
    return counts[answer] > 1.1 * ranked[-2] or counts[answer] > 5 * median


class Search:
    """One search for a question of a family on a scene.

    Parameters
    ----------
    family
    index
        Of the scene.
    counts
        How often each possible answer of the family was given so far.
    rng
        Decides the order of all choices.
    """

    def __init__(self, family: Family, index: SceneIndex, counts: dict, rng: random.Random):
        self.family, self.index, self.counts, self.rng = family, index, counts, rng
        self.refused = {answer for answer in counts if overrepresented(counts, answer)}
        self.outputs: list = []
        self.choices: list[Choice | None] = []
        self.failed: set = set()

    def run(self) -> list[Choice | None] | None:
        """Return one choice a step, None where a step has no slot; None when no question can be asked."""
        if len(self.refused) == len(self.counts):
            return None
        return list(self.choices) if self._descend(0) else None

    def _descend(self, position: int) -> bool:
        steps = self.family.steps
        if position == len(steps):
            return self._acceptable()
        step = steps[position]
        state = (position, *(self.outputs[earlier] for earlier in step.live))
        if state in self.failed:
            return False
        useless = set()
        for choice, output in self._options(step):
            if output in useless or self._equals_another(position, output):
                continue
            self.outputs.append(output)
            self.choices.append(choice)
            if self._descend(position + 1):
                return True
            self.outputs.pop()
            self.choices.pop()
            if not step.behind_relate:
                useless.add(output)
        if not step.after_such:
            self.failed.add(state)
        return False

    def _equals_another(self, position: int, output) -> bool:
        return any((second == position and self.outputs[first] == output) for first, second in self.family.differ)

    def _acceptable(self) -> bool:
        answer = self.outputs[-1]
        return answer not in self.refused and not (self.family.has_relate and self._degenerate(answer))

    def _degenerate(self, answer) -> bool:
        """Return whether the answer stays when the whole scene takes a relation's place."""
        for position, step in enumerate(self.family.steps):
            if step.kind != "relate":
                continue
            outputs = [*self.outputs[:position], self.index.everything]
            for later in range(position + 1, len(self.family.steps)):
                outputs.append(self._output(self.family.steps[later], self.choices[later], outputs))
                if outputs[-1] is None:
                    break
            else:
                if outputs[-1] == answer:
                    return True
        return False

    def _options(self, step: Step):
        """Yield choices for a step with their outputs, each once, in random order."""
        if step.slot is None:
            yield None, self._output(step, None, self.outputs)
            return
        options = list(self._choices(step))
        finish = _FINISH.get(step.kind.rpartition("_")[2], _keep)
        while options:
            # Draw without replacement: only as much of a shuffle as the search needs.
            drawn = self.rng.randrange(len(options))
            choice, objects = options[drawn]
            options[drawn] = options[-1]
            options.pop()
            yield choice, finish(objects)

    def _choices(self, step: Step):
        """Return the choices for a step's slot as (choice, selected objects)."""
        before = self.outputs[step.inputs[0]]
        kind = step.kind
        if kind == "relate":
            return [((name, None), self.index.related[name][before]) for name in RELATIONS]
        if kind.startswith("relate_filter"):
            return self._related(step, before)
        if kind.startswith("filter_") and kind[7:] in _POSITION:
            position = _POSITION[kind[7:]]
            return [
                ((None, _only(position, value)), before & objects)
                for value, objects in self.index.having[position].items()
            ]
        fitting = [((None, key), objects & before) for key, objects in self.index.descriptions(step.unnamed)]
        if kind == "filter_unique":
            return [option for option in fitting if option[1].bit_count() == 1]
        if kind == "filter" or before == self.index.everything:
            # "How many things are there?" asks for nothing that could be pointed at.
            fitting = [option for option in fitting if option[0][1] != _NOTHING_NAMED]
        singles = sum(objects.bit_count() == 1 for _, objects in fitting)
        return fitting + self._strangers(step, before, len(fitting) if kind == "filter_exist" else singles)

    def _strangers(self, step: Step, before: int, number: int) -> list:
        """Return descriptions drawn at random, of which most fit no object: they make answers "no" and 0."""
        strangers = []
        for _ in range(number):
            drawn = [
                None if position in step.unnamed else values[self.rng.randrange(len(values))]
                for position, values in enumerate(_VALUES)
            ]
            key = tuple(drawn)
            if key != _NOTHING_NAMED:
                strangers.append(((None, key), self.index.select(key, before)))
        return strangers

    def _related(self, step: Step, before: int) -> list:
        """Return choices of a relation and a description, at most a tenth of them with an idle relation."""
        useful, trivial = self.index.relations(before, step.unnamed)
        if step.kind.endswith("unique"):
            useful, trivial = (
                [option for option in options if option[1].bit_count() == 1] for options in (useful, trivial)
            )
        elif step.kind == "relate_filter":
            useful, trivial = ([option for option in options if option[1]] for options in (useful, trivial))
        allowed = len(useful) // TRIVIAL_ODDS
        return useful + self.rng.sample(trivial, min(allowed, len(trivial)))

    def _output(self, step: Step, choice: Choice | None, outputs: list):
        """Return a step's output with its slot filled, None where a ``unique`` is not unique."""
        kind = step.kind
        inputs = [outputs[earlier] for earlier in step.inputs]
        if step.slot is not None:
            relation, description = choice
            objects = inputs[0]
            if relation is not None:
                objects = self.index.related[relation][objects]
            if description is not None:
                objects = self.index.select(description, objects)
            last = kind.rpartition("_")[2]
            if last == "unique" and objects.bit_count() != 1:
                return None
            return _FINISH.get(last, _keep)(objects)
        if kind == "scene":
            return self.index.everything
        if kind in _SETS:
            return _SETS[kind](*inputs)
        name = kind.partition("_")[2]
        if kind.startswith("same_"):
            return self.index.same(_POSITION[name], inputs[0])
        if kind.startswith("query_"):
            return self.index.attributes[inputs[0]][_POSITION[name]]
        return inputs[0] == inputs[1]  # equal_*


def _only(position: int, value: str) -> Description:
    return (*_NOTHING_NAMED[:position], value, *_NOTHING_NAMED[position + 1 :])


def _keep(objects):
    return objects


# The last step of a composite node.
_FINISH = {
    "unique": lambda objects: objects.bit_length() - 1,
    "count": int.bit_count,
    "exist": bool,
}
_SETS = {
    "union": lambda first, second: first | second,
    "intersect": lambda first, second: first & second,
    "count": int.bit_count,
    "exist": bool,
    "less_than": lambda first, second: first < second,
    "greater_than": lambda first, second: first > second,
}
