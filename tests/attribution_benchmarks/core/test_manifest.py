"""A manifest says what a table was computed from, and nothing that changes from run to run."""

import json
import shlex

import numpy as np
from absl import flags

from attribution_benchmarks.core import manifest


def run():
    return manifest.describe_run("svea", {"a": "f1"}, {"mnist1d": "f2"}, np.int64(3), "python -m svea.benchmark")


def test_it_holds_what_the_house_asks_for_and_is_plain_json():
    assert set(run()) == {"benchmark", "versions", "models", "data", "seed", "command"}
    assert json.loads(json.dumps(run())) == run()


def test_two_runs_give_the_same_bytes():
    assert json.dumps(run()) == json.dumps(run())


def test_versions_are_those_of_the_installed_packages():
    assert manifest.versions()["numpy"] == np.__version__


def test_the_command_repeats_what_was_given_except_where_to_write():
    values = flags.FlagValues()
    flags.DEFINE_list("methods", ["a"], "", flag_values=values)
    flags.DEFINE_integer("seed", 0, "", flag_values=values)
    flags.DEFINE_string("output", "", "", flag_values=values)
    flags.DEFINE_alias("former_name", "methods", flag_values=values)
    values(["program", "--former_name=x,y", "--output=here.json"])
    assert manifest.command_of("python -m svea.benchmark", values) == "python -m svea.benchmark --methods=x,y"


def test_a_shell_reads_the_command_as_it_was_given():
    values = flags.FlagValues()
    flags.DEFINE_string("model", "", "", flag_values=values)
    values(["program", "--model=my model's/1"])
    assert shlex.split(manifest.command_of("bench", values)) == ["bench", "--model=my model's/1"]
