"""Load and explain every SavedModel below a folder, and count what happens by cause.

    python -m tools.model_zoo.corpus FOLDER [--output=corpus.json]

Each file is loaded as ``attribution.load_model`` does it, in a process with limits of time and memory; nothing in a
file runs that the allow-list of operations refuses. Two random inputs of the declared shapes are explained by every
method. Gradients, and what is made of them, are compared with ``tf.GradientTape`` through the file's own signature,
occlusion and RISE with its scores.

- **loads**: every method explains the inputs, or is refused in one line; without an oracle, its first pass does;
- **refused**: the file is, by a ``BadInput`` of one line;
- **wrong**: a method differs from its oracle by more than 10 times what rounding changes in the oracle itself;
- **crashes**: any other exception, or a limit.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import logging
import multiprocessing
import pathlib
import re
import resource
import traceback

import numpy as np

from attribution.errors import BadInput, print_line
from attribution.tensorflow_log import quiet_tensorflow

_ROWS, _ANY_SIZE = 2, 32
_ROUNDING = 10.0  # times the change of the oracle where its inputs, or for sums the scores, are rounded
_STEP = 2.0**-23
_EXCEPTION = re.compile(r"[A-Z]\w*(?:Error|Exception): ")  # as ``try_method`` reports what is not a ``BadInput``
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tools.model_zoo.measure"])
_COMPARED = (
    "gradient", "gradient_x_input", "integrated_gradients", "smoothgrad", "vargrad", "expected_gradients", "deeplift",
)  # fmt: skip
_WITH_POSITIONS = ("occlusion", "rise", "shapley_sampling", "kernel_shap")


def main(arguments: list[str] | None = None) -> None:
    """Examine every file and print a table of counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, help="file of all results, as JSON")
    parser.add_argument("--seconds", type=int, default=600, help="limit of time for a file")
    parser.add_argument("--gigabytes", type=int, default=12, help="limit of address space for a file")
    values = parser.parse_args(arguments)
    quiet_tensorflow()
    records = {}
    for path in sorted(path.parent for path in values.folder.rglob("saved_model.pb")):
        name = str(path.relative_to(values.folder))
        records[name] = _in_a_process(path, values.seconds, values.gigabytes)
        print_line(f"{records[name]['status']:8} {name}")
        if values.output:
            values.output.write_text(json.dumps(records, indent=1), encoding="utf-8")
    print_line()
    print_line("files  status    cause")
    counts = collections.Counter((record["status"], record["cause"]) for record in records.values())
    for (status, cause), count in counts.most_common():
        print_line(f"{count:5}  {status:8}  {cause}")


def _in_a_process(path, seconds, gigabytes) -> dict:
    receiver, sender = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_examine, args=(sender, path, gigabytes << 30))
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(seconds) else _record("crashes", f"takes more than {seconds} s")
    except EOFError:
        process.join()
        return _record("crashes", f"the process ends with {process.exitcode}")
    finally:
        process.kill()
        process.join()


def _examine(sender, path, memory) -> None:
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    try:
        sender.send(examine(path))
    except BadInput as error:
        sender.send(_record("refused", str(error)))
    except Exception as error:
        sender.send(_record("crashes", type(error).__name__, traceback=traceback.format_exc()))


def _record(status, cause="", **found) -> dict:
    from tools.model_zoo import measure

    return {"status": status, "cause": measure.in_general(cause), **found}


def examine(path: pathlib.Path) -> dict:
    """Return what becomes of a file: ``"status"`` and ``"cause"``; of one that loads, ``"methods"`` and more.

    Raises
    ------
    BadInput
        If it is refused.
    """
    from attribution.inspect import __main__ as inspection

    model, options = _loaded(path)
    explain_input = _explained(model)
    cells = _cells(path, model, options, explain_input)
    found = {"options": options, "explained": explain_input, "classes": model.num_classes, "methods": cells}
    found["inputs"] = {name: inspection._spec(name, spec) for name, spec in model.inputs.items()}
    for status, ours in (("crashes", "crashes"), ("wrong", "differs")):
        if failures := [f"{name}: {cell['note']}" for name, cell in cells.items() if cell["status"] == ours]:
            return _record(status, failures[0], **found)
    return _record("loads", "with a choice named" if options else "as it is", **found)


def _cells(path, model, options, explain_input) -> dict[str, dict]:
    """Return the status of each method, compared with its oracle where it has one."""
    from attribution.model._loading_checks import random_feed
    from attribution.trial import try_method
    from tools.model_zoo import measure

    feed = random_feed(model, _ROWS, _ANY_SIZE)
    cells, compared = {}, None
    if explain_input in model.inputs and "inputs" not in options:
        compared = _Compared(path, model, options, explain_input, feed)
    for name in measure.METHODS:
        if compared and name in compared.methods:
            cells[name] = compared.cell(name)
        else:
            trial = try_method(name, model, feed, explain_input)
            failed = "crashes" if _EXCEPTION.match(trial.reason) else "refused"
            cells[name] = {"status": "runs" if trial.applies else failed, "note": trial.reason}
    return cells


class _Compared:
    """A model with the oracles of its file: at the inputs, and at inputs that are rounded otherwise."""

    def __init__(self, path, model, options, explain_input, feed):
        from attribution.model import saved_model
        from attribution.model.loader import SavedFile
        from tools.model_zoo import measure, oracles
        from tools.model_zoo.family import Family

        targets = (np.arange(len(feed[explain_input])) % model.num_classes).astype(np.int32)
        first = model._has_channels_first(model.input_node(explain_input))
        family = Family("", "", None, None, model.score, options, explain_input, channels_first=first)
        signature = options.get("signature") or saved_model.default_signature(SavedFile(path).signatures)
        load = functools.partial(saved_model.load, signatures=[signature])
        rounded = {name: _rounded(array) for name, array in feed.items()}
        self._exact, self._rounded = (
            functools.cache(functools.partial(oracles.Oracle, family, path, values, targets, load))
            for values in (feed, rounded)
        )
        self._subject = measure.Subject(family, model, feed, targets, self._exact)
        shape = feed[explain_input].shape
        positions = shape[2:] if first else shape[1:-1]
        self.methods = {*_COMPARED, *(_WITH_POSITIONS if max(positions, default=0) > 2 else ())}  # three groups of them

    def cell(self, name) -> dict:
        """Return the status of a method's maps, a note, and the difference from the oracle."""
        cell = self._subject.cell(name)
        status = cell.status
        if status == "differs" and cell.against != "other inputs":
            status = "rounding" if cell.difference <= _ROUNDING * self._change(name, cell.against) else "differs"
        return {"status": status, "note": cell.note, "difference": cell.difference}

    def _change(self, name, against) -> float:
        """Return what rounding changes in the oracle, as a share of its largest value."""
        from tools.model_zoo import measure

        exact = self._exact()
        scores = exact.scores(exact.values)
        if against == measure.COMPLETENESS:
            start = exact.scores(np.zeros_like(exact.values))
            return _STEP * max(np.abs(scores).max(), np.abs(start).max()) / np.abs(scores - start).max()
        change = measure.difference(getattr(self._rounded(), name)(), getattr(exact, name)())
        if self._subject.model.score == "probabilities":  # p (1 - p) of a probability near 1 loses digits
            copies = exact.noisy_copies() if name in ("smoothgrad", "vargrad") else []
            nearest = max(scores.max(), *(exact.scores(copy).max() for copy in copies), 0)
            change = max(change, _STEP / max(1 - nearest, _STEP))
        return change


def _loaded(path):
    """Return a model and the options that it was loaded with: none, or the first choice that the file leaves."""
    import attribution
    from attribution.inspect import __main__ as inspection
    from attribution.model.loader import SavedFile

    first = None
    for options in ({}, *inspection._choices(SavedFile(path), {})):
        try:
            model = attribution.load_model(path, **options)
            if model._compiled.probabilities is not None:
                model = attribution.load_model(path, score="probabilities", **options)
            _explained(model)
        except BadInput as error:
            first = first or error
            continue
        return model, options
    raise first or BadInput("it has no signature")


def _explained(model) -> str:
    """Return the input of floating point with the most axes, else the first such tensor behind an input."""
    try:
        return model.explained_name(None)
    except BadInput:
        ranks = {name: spec.shape.rank for name, spec in model.inputs.items() if spec.dtype.is_floating}
        floats = sorted((name for name, rank in ranks.items() if rank), key=lambda name: -ranks[name])
        behind = [inner for name in model.inputs for inner in model._first_floats(name)]
        if not floats + behind:
            raise
        return (floats + behind)[0]


def _rounded(array: np.ndarray) -> np.ndarray:
    """Return numbers of floating point, half of them moved to their neighbour."""
    if array.dtype.kind != "f":
        return array
    return np.where(np.random.default_rng(1).random(array.shape) < 0.5, np.nextafter(array, array.dtype.type(2)), array)


if __name__ == "__main__":
    main()
