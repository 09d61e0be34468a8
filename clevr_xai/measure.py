"""Explain a network's right answers batch by batch, score the maps, keep the scores and drop the maps."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

import attribution
from attribution import Method
from attribution.gradients import path_start
from attribution_benchmarks.command_line import BadInput
from attribution_benchmarks.leaderboard.store import ScoreStore
from clevr_xai import controls
from clevr_xai.answering import Answering, confidences, scaled
from clevr_xai.dataset import Batch, Dataset
from clevr_xai.measured import Label, Measured
from clevr_xai.metrics import METRICS
from clevr_xai.pooling import POOLINGS
from clevr_xai.scoring import from_record, score_maps, to_record

DEFINITION = 1  # of the stored numbers; a change makes those of before stale
PATH_METHOD = "integrated_gradients"  # whose maps should add up to a difference of scores


class Measurement:
    """A run over some questions with some methods and controls.

    Parameters
    ----------
    dataset
        Its questions, of the network's image size.
    rows
        Which of them.
    network
        What answers.
    methods
        Name -> (method, overrides).
    chosen_controls
        Of ``controls.CONTROLS``.
    controlled
        Names of the methods that the controls of methods are asked of.
    store
        Where scores are kept.
    seed, batch_size
        Of the run.
    save_map
        Function that is given label, question index and map, (H, W, C) or (H, W), of every method as asked; None
        saves none.
    has_map
        Function from label and question index to whether the map is saved already.
    """

    def __init__(
        self,
        dataset: Dataset,
        rows: Sequence[int],
        network: Answering,
        methods: Mapping[str, tuple[Method, dict]],
        chosen_controls: Sequence[str],
        controlled: Sequence[str],
        store: ScoreStore,
        seed: int = 0,
        batch_size: int = 8,
        save_map: Callable | None = None,
        has_map: Callable | None = None,
    ):
        self.dataset, self.rows, self.network = dataset, np.asarray(rows, np.int64), network
        self.methods, self.seed, self.batch_size = dict(methods), seed, batch_size
        self._save_map, self._has_map = save_map, has_map
        self.labels = (
            *(Label(name) for name in methods),
            *(
                Label(name, control)
                for control in controls.OF_METHODS
                if control in chosen_controls
                for name in methods
                if name in controlled
            ),
            *(Label(control=control) for control in controls.MAPS if control in chosen_controls),
        )
        common = {
            "benchmark": "clevr_xai",
            "definition": DEFINITION,
            "model": network.model.fingerprint,
            "questions": dataset.kind,
            "ground_truths": list(dataset.ground_truths),
        }
        self._predictions = store.series(**common, method="prediction")
        self._series = {label: store.series(**common, **self._key(label)) for label in self.labels}
        self._store = store

    def run(self, progress: bool = False) -> Measured:
        """Explain and score what is not in the store yet, and return all numbers."""
        keys, facts = [], []
        bar = _progress_bar(len(self.rows), progress)
        for batch in self.dataset.batches(self.batch_size, self.rows):
            found = self._keys(batch)
            facts += self._answer(batch, found)
            self._explain(batch, found, np.array([fact[0] for fact in facts[-len(found) :]]))
            keys += found
            bar.update(len(found))
        bar.close()
        return self._measured(keys, facts)

    def maps(self, rows: Sequence[int]) -> dict[str, np.ndarray]:
        """Return the maps of the methods as asked for some questions, name -> (n, H, W, C) or (n, H, W)."""
        (batch,) = self.dataset.batches(len(rows), rows)
        inputs = self.network.inputs(batch.images, batch.questions)
        return self._maps_of_methods(
            self.network.model, list(self.methods), inputs, self.network.targets(batch.answers), batch
        )

    @functools.cached_property
    def _shuffled(self):
        from clevr_xai.random_weights import with_shuffled_weights

        return with_shuffled_weights(self.network.model.path, self.seed)

    @functools.cached_property
    def _sentences(self) -> list[str]:
        return [question["question"] for question in self.dataset.questions]

    def _key(self, label: Label) -> dict:
        """Return what a label's scores depend on besides network, data and question."""
        key = {"method": label.name, "seed": self.seed}
        if label.method:
            key.update(_method_key(*self.methods[label.method]))
        if label.control == "permuted_question":
            key["other_questions"] = hashlib.sha256("\n".join(self._sentences).encode()).hexdigest()
        return key

    def _keys(self, batch: Batch) -> list[str]:
        """Return a name for each question that changes with its number, words, answer, image and masks."""
        numbers = (self.dataset.questions[row]["question_index"] for row in batch.rows)
        return [f"{number} {digest[:16]}" for number, digest in zip(numbers, batch.digests(), strict=True)]

    def _answer(self, batch: Batch, keys: list[str]) -> list[tuple]:
        """Return (answered rightly, confidence, sizes of the masks) of each question of a batch."""
        targets = self.network.targets(batch.answers)
        if self._predictions.missing(keys):
            logits = self._logits(self.network.inputs(batch.images, batch.questions))
            sure = confidences(logits)
            answers = logits.argmax(axis=1)
            self._predictions.append({key: [int(a), float(c)] for key, a, c in zip(keys, answers, sure, strict=True)})
        sizes = np.stack([mask.sum(axis=(1, 2)) for mask in batch.masks.values()], axis=1)
        try:
            stored = [(int(answer), float(sure)) for answer, sure in (self._predictions[key] for key in keys)]
        except (TypeError, ValueError) as error:
            raise self._damaged() from error
        return [
            (answer == target, sure, size) for (answer, sure), target, size in zip(stored, targets, sizes, strict=True)
        ]

    def _explain(self, batch: Batch, keys: list[str], right: np.ndarray) -> None:
        """Explain and score the right answers of a batch that lack a score or a saved map."""
        numbers = [self.dataset.questions[row]["question_index"] for row in batch.rows]
        lacking = [self._lacking(*question) for question in zip(keys, numbers, strict=True)]
        chosen = [position for position in np.flatnonzero(right) if lacking[position]]
        if not chosen:
            return
        keys, indices = [keys[position] for position in chosen], [numbers[position] for position in chosen]
        wanted = [label for label in self.labels if any(label in lacking[position] for position in chosen)]
        batch = _part(batch, chosen)
        inputs = self.network.inputs(batch.images, batch.questions)
        targets = self.network.targets(batch.answers)
        for control in dict.fromkeys(label.control for label in wanted):
            names = [label.method for label in wanted if label.control == control]
            if control in controls.MAPS:
                maps = {"": controls.MAPS[control](scaled(batch.images), self._random_keys(batch), self.seed)}
            else:
                maps = self._maps_under(control, names, inputs, targets, batch)
            for name, found in maps.items():
                label = Label(name, control)
                gaps = self._gaps(found, inputs, targets) if label == Label(PATH_METHOD) else None
                scores = score_maps(found, batch.masks)
                self._series[label].append(
                    {
                        key: to_record(numbers if gaps is None else np.append(numbers, gaps[row]))
                        for row, (key, numbers) in enumerate(zip(keys, scores, strict=True))
                    }
                )
                if self._save_map and not control:
                    for index, one in zip(indices, found, strict=True):
                        self._save_map(label, index, one)

    def _maps_under(self, control, names, inputs, targets, batch) -> dict[str, np.ndarray]:
        """Return maps of methods as asked, or under one of the controls of methods."""
        model = self.network.model
        if control == "wrong_class":
            targets = controls.wrong_targets(self._logits(inputs), targets)
        elif control == "permuted_question":
            others = controls.other_questions(self._sentences, batch.rows, self.seed)
            inputs = self.network.inputs(batch.images, [self._sentences[other] for other in others])
        elif control == "random_weights":
            model = self._shuffled
        return self._maps_of_methods(model, names, inputs, targets, batch)

    def _maps_of_methods(self, model, names, inputs, targets, batch) -> dict[str, np.ndarray]:
        return attribution.explain_many(
            {name: self.methods[name] for name in names}, model, inputs, targets, wrt="image",
            batch_size=self.batch_size, seed=self.seed, keys=self._random_keys(batch),
        )  # fmt: skip

    def _random_keys(self, batch: Batch) -> list[str]:
        """Return names that what is drawn for a question depends on, apart from the seed."""
        return [f"{self.dataset.kind}/{self.dataset.questions[row]['question_index']}" for row in batch.rows]

    def _gaps(self, maps, inputs, targets) -> np.ndarray:
        """Return |Σ map - (f(image) - f(b))| / |f(image) - f(b)|; b is the path's beginning."""
        rows = np.arange(len(targets))
        method, overrides = self.methods[PATH_METHOD]
        start = path_start(inputs["image"], method.parameters(overrides)["baseline"])
        begun = dict(inputs, image=np.broadcast_to(start, inputs["image"].shape))
        difference = (self._logits(inputs)[rows, targets] - self._logits(begun)[rows, targets]).astype(np.float64)
        missed = np.abs(maps.sum(axis=(1, 2, 3), dtype=np.float64) - difference)
        return np.divide(missed, np.abs(difference), out=np.full(len(rows), np.nan), where=difference != 0)

    def _logits(self, inputs) -> np.ndarray:
        return self.network.model.scores(inputs, self.batch_size)

    def _lacking(self, key: str, index: int) -> set[Label]:
        """Return the labels that have no score of a question, or lack its map where maps are saved."""
        return {label for label in self.labels if self._series[label].missing([key]) or self._unsaved(label, index)}

    def _unsaved(self, label: Label, index: int) -> bool:
        return bool(self._save_map and label.method and not label.control and not self._has_map(label, index))

    def _measured(self, keys: list[str], facts: list[tuple]) -> Measured:
        right = np.array([fact[0] for fact in facts], bool)
        sizes = np.array([fact[2] for fact in facts], np.int64).reshape(len(facts), -1)
        questions = [self.dataset.questions[row] for row in self.rows]
        by_path = Label(PATH_METHOD)
        return Measured(
            self.dataset.kind,
            self.dataset.ground_truths,
            self.rows,
            np.array([question["question_index"] for question in questions], np.int64),
            [question["image_filename"] for question in questions],
            right,
            np.array([fact[1] for fact in facts], np.float64),
            {name: sizes[:, place] for place, name in enumerate(self.dataset.ground_truths)},
            hashlib.sha256("\n".join(keys).encode()).hexdigest(),
            self.labels,
            lambda label: self._read(label, keys, right)[0],
            self._read(by_path, keys, right)[1] if by_path in self.labels else None,
        )

    def _read(self, label: Label, keys: list[str], right: np.ndarray):
        """Return a label's scores, and the gaps where it has them."""
        shape = (len(self.dataset.ground_truths), len(METRICS), len(POOLINGS))
        count = int(np.prod(shape))
        with_gap = label == Label(PATH_METHOD)
        numbers = np.full((len(keys), count + with_gap), np.nan)
        try:
            for row in np.flatnonzero(right):
                numbers[row] = from_record(self._series[label][keys[row]], count + with_gap)
        except (AttributeError, KeyError, ValueError) as error:
            raise self._damaged() from error
        return numbers[:, :count].reshape(-1, *shape), numbers[:, -1] if with_gap else None

    def _damaged(self) -> BadInput:
        return BadInput(f"the scores in {self._store.directory} are damaged; remove that folder to compute anew")


def _part(batch: Batch, positions) -> Batch:
    """Return some rows of a batch."""
    return Batch(
        batch.rows[positions],
        batch.images[positions],
        [batch.questions[position] for position in positions],
        [batch.answers[position] for position in positions],
        {name: mask[positions] for name, mask in batch.masks.items()},
        {name: available[positions] for name, available in batch.available.items()},
    )


def _method_key(method: Method, overrides: dict) -> dict:
    """Return what a method's maps depend on: its code and its parameters."""
    plain = (int, float, str, bool, type(None))
    parameters = method.parameters(overrides)
    shown = {k: v if isinstance(v, plain) else repr(v) for k, v in parameters.items()}
    return {"code": method.fingerprint, "parameters": shown}


def _progress_bar(total: int, shown: bool):
    import tqdm

    return tqdm.tqdm(total=total, desc="questions", unit="question", disable=not shown)
