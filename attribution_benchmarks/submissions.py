"""Write the scores of a method as a submission to the leaderboard, and check one.

    attribution-benchmarks submit my_method.py:f --output_dir=my_method --title="My method" --authors="A. Name"
    attribution-benchmarks check-submission my_method
    attribution-benchmarks check-submission my_method --recompute

A submission is one folder: method.json, scores.npz (the values of each input on all networks and under all controls),
environment.json, and method.py, the file of the method, unless --nocode. The check says whether it is complete and of
the same inputs and networks, and prints its places. --recompute runs the code of the submission: read it first.

Cost: as attribution-benchmarks score without a limit of time; the check takes seconds, a minute with --recompute.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import re
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import flags

from attribution import __version__, cli, resolve_method
from attribution.errors import BadInput, listed, print_line, print_text
from attribution.files import atomic_write, check_directory
from attribution.reading import read_json
from attribution_benchmarks.core.manifest import versions
from attribution_benchmarks.core.scores import InputScores, Scores, mean_members
from attribution_benchmarks.report import placement, published
from attribution_benchmarks.report.placement import Ranking
from attribution_benchmarks.report.published import PublishedSet
from attribution_benchmarks.stats.statistics import MIN_NETWORKS
from attribution_benchmarks.torch import PREFIX

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, methods=[], cache_dir="")
flags.DEFINE_string("output_dir", "", "folder of the submission", flag_values=FLAGS)
flags.DEFINE_string("title", "", "name of the method, as printed", flag_values=FLAGS)
flags.DEFINE_string("authors", "", "who proposes it", flag_values=FLAGS)
flags.DEFINE_string("paper", "", "address of the paper, if there is one", flag_values=FLAGS)
flags.DEFINE_bool("code", True, "include the file of the method", flag_values=FLAGS)
flags.DEFINE_string("check", "", "folder of a submission to check", flag_values=FLAGS)
flags.DEFINE_bool("recompute", False, "run the code of the submission on a sample", flag_values=FLAGS)
_REQUIRED = ("title", "authors", "framework", "parameters", "code_sha256", "release")
_PATH = re.compile(r"(?<![\w:/])(/|~/|[A-Za-z]:\\)\w")


def submit(method: str, folder: pathlib.Path, about: Mapping[str, str], code: bool = True) -> Ranking:
    """Score a method on all published sets that it fits, write a submission, and return its places.

    ``about`` has ``title`` and ``authors``, and may have ``paper``. Raises ``BadInput`` if one of the first two is
    missing, the folder cannot be written, or the method cannot be scored.
    """
    from attribution_benchmarks import api

    for name in ("title", "authors"):
        if not about.get(name):
            raise BadInput(f"--{name} is empty; a submission names the method and who proposes it")
    file, _, function = method.removeprefix(PREFIX).rpartition(":")
    if not file.endswith(".py"):
        raise BadInput(f"'{method}' is not a method of a file; submit one as file.py:function")
    check_directory("output_dir", folder)
    benchmarks = list(dict.fromkeys(one.benchmark for one in published.sets()))
    found = api.score(method, benchmarks, time=1e9)  # all networks
    name, content = key_of(about["title"]), pathlib.Path(file).read_bytes()
    parameters = {key: repr(value) for key, value in resolve_method(method).defaults.items()}
    described = {
        "paper": "", **about, "framework": "PyTorch" if method.startswith(PREFIX) else "TensorFlow",
        "function": function, "parameters": parameters,
        "code_sha256": hashlib.sha256(content).hexdigest(), "release": __version__,
    }  # fmt: skip
    groups = [_renamed(group, method, name) for group in found.groups if method in group.values]
    Scores(groups=groups, titles={name: about["title"]}).save(folder / "scores.npz")
    for file_name, document in (("method", described), ("environment", {**versions(), "cpu": published.processor()})):
        atomic_write(folder / f"{file_name}.json", json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    if code:
        atomic_write(folder / "method.py", content)
    return check(folder)


def key_of(title: str) -> str:
    """Return the name of a method in files: letters, digits and underscores."""
    return re.sub(r"\W+", "_", title.lower()).strip("_")


def _renamed(group: InputScores, method: str, name: str) -> InputScores:
    """Return a group with the values of one method alone, under another name."""
    sources = [source for source in group.sources if source.method == method]
    renamed = [dataclasses.replace(source, method=name) for source in sources]
    values = {new.name: group.values[old.name] for old, new in zip(sources, renamed, strict=True)}
    return dataclasses.replace(group, values=values, sources=renamed)


def check(folder: pathlib.Path, recompute: bool = False) -> Ranking:
    """Check a submission, and return its places among the published methods.

    Raises ``BadInput`` if a file is missing or damaged, if it names a path, if it is of another release, if inputs,
    networks or values are missing or out of bounds, or, with ``recompute``, if its code gives other numbers.
    """
    about, scores = read_json(folder / "method.json"), Scores.load(folder / "scores.npz")
    missing = [name for name in _REQUIRED if name not in about]
    if missing:
        raise BadInput(f"{folder / 'method.json'} lacks {listed(missing)}")
    if found := _PATH.search(json.dumps(about)):
        raise BadInput(f"{folder / 'method.json'} holds a path, '{found[0]}...'; a submission names none")
    if about["release"] != __version__:
        raise BadInput(f"{folder} is of release {about['release']}, this is {__version__}; submit it again")
    name, known = key_of(about["title"]), {group.where["benchmark"] for group in scores.groups}
    chosen = [one for one in published.sets() if one.definition.name in known]  # a method may not fit all benchmarks
    if not chosen:
        raise BadInput(f"{folder} has no scores of a published benchmark")
    merged = {one: _checked(one, scores, name) for one in chosen}
    if recompute:
        _recomputed(folder, about, scores, chosen[0])
    return placement.ranking(merged, [name], [])


def _checked(one: PublishedSet, scores: Scores, name: str) -> Scores:
    """Return published scores with those of a submission."""
    groups = []
    metrics = one.definition.select_metrics(list(dict.fromkeys(group.where["metric"] for group in one.scores.groups)))
    for group in one.scores.groups:
        where = f"{one.tasks[0].title}, {group.where['metric']}"
        same = [each for each in scores.groups if each.where == group.where]
        if len(same) != 1 or name not in same[0].values:
            raise BadInput(f"{where}: the submission has no values of '{name}'; submit all sets")
        found, known = same[0], group.by_network(group.sources[0].name)
        if list(found.inputs) != list(group.inputs) or found.by_network(name).shape != known.shape:
            raise BadInput(f"{where}: other inputs or networks than the published ones; submit all networks")
        if taken := [one for one in found.values if one in group.values or one.partition("/")[0] != name]:
            raise BadInput(f"{where}: {listed(taken)} is published or of another method; choose another --title")
        low, high = metrics[group.where["metric"]].bounds or (-np.inf, np.inf)
        for source, values in found.values.items():
            values = np.asarray(values)
            scored = np.isfinite(values)
            if scored.any(axis=0).sum() < np.isfinite(known).any(axis=0).sum():
                raise BadInput(f"{where}: '{source}' has no values on some networks; submit without a limit of time")
            if not ((values[scored] >= low - 1e-6) & (values[scored] <= high + 1e-6)).all():
                raise BadInput(f"{where}: '{source}' has values out of bounds, {low} to {high}")
        groups.append(
            dataclasses.replace(
                group, values={**group.values, **found.values}, sources=[*group.sources, *found.sources]
            )
        )
    return dataclasses.replace(one.scores, groups=groups, titles={**one.scores.titles, **scores.titles})


def _recomputed(folder: pathlib.Path, about: Mapping[str, Any], scores: Scores, one: PublishedSet) -> None:
    """Raise ``BadInput`` if the code of a submission gives other numbers on a network of one set."""
    from attribution_benchmarks import api

    file = folder / "method.py"
    if not file.exists() or hashlib.sha256(file.read_bytes()).hexdigest() != about["code_sha256"]:
        raise BadInput(f"{file} is missing or not the code of the submission; nothing can be recomputed")
    number = int(about["code_sha256"], 16) % len(one.tasks)
    method = f"{PREFIX if about['framework'] == 'PyTorch' else ''}{file}:{about['function']}"
    found = api.scores_of(one.tasks[number], {method: method})
    groups = [_renamed(group, method, key_of(about["title"])) for group in found.groups]
    groups = [mean_members(group) if len(one.tasks) >= MIN_NETWORKS else group for group in groups]
    share = placement.differing(scores, {number: Scores(groups=groups)})
    if share > published.JUMPS:
        raise BadInput(f"{one.tasks[number].title}: {100 * share:.1f} % of the recomputed values differ")


def main(flag_values: flags.FlagValues) -> None:
    """Write or check a submission, and print its places."""
    if flag_values.check:
        found = check(pathlib.Path(flag_values.check), flag_values.recompute)
        print_line(f"{flag_values.check} is complete and valid", file=sys.stderr)
    else:
        if len(flag_values.methods) != 1 or not flag_values.output_dir:
            raise BadInput("expected submit my_method.py:f --output_dir=my_method, or check-submission my_method")
        about = {name: flag_values[name].value for name in ("title", "authors", "paper")}
        found = submit(flag_values.methods[0], pathlib.Path(flag_values.output_dir), about, flag_values.code)
    print_text(found.text)


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
