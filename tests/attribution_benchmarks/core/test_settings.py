"""Settings are checked when they are made, and flags are derived from them."""

import dataclasses
import pathlib

import numpy as np
import pytest
from absl import flags

import bim
import clevr_xai
import svea
from attribution.errors import BadInput
from attribution_benchmarks.cli.settings_flags import define_settings, settings_of
from attribution_benchmarks.core.settings import (
    Count,
    ExampleSettings,
    Names,
    RunSettings,
    described_fields,
    inherited,
    setting,
)
from bim.settings import TcavSettings

ALL = (ExampleSettings, svea.Settings, bim.Settings, clevr_xai.Settings, TcavSettings)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Some(RunSettings):
    """One field of each type."""

    batch_size: int = inherited(RunSettings, "batch_size", 5, also="; five here")
    names: Names = setting(("a", "b"), "names")
    count: Count = setting("all", "a number or all")
    perhaps: Count | None = setting(None, "a number, all or nothing")
    other: str | None = setting(None, "a text or nothing")
    share: float = setting(0.5, "a share", low=0, high=1)
    way: str = setting("first", "a way", choices=("first", "second"))
    aloud: bool = setting(True, "whether to speak")
    place: str = setting("", "a directory", makes_files=True)


def parsed(*arguments):
    values = flags.FlagValues()
    define_settings(values, Some)
    values(["program", *arguments])
    return settings_of(values, Some)


def test_flags_and_python_give_the_same_settings():
    assert parsed() == Some()
    given = ["--names=x,y", "--count=7", "--perhaps=all", "--share=1", "--way=second", "--noaloud", "--place=p"]
    expected = Some(
        names=["x", "y"], count=7, perhaps="all", share=1, way="second", aloud=False, place=pathlib.Path("p"),
        seed=np.int64(3),
    )  # fmt: skip
    assert parsed(*given, "--seed=3", "--other=") == dataclasses.replace(expected, other="")
    assert isinstance(expected.share, float) and type(expected.seed) is int and hash(expected)
    assert Some(count="7").count == 7
    assert Some(aloud=np.False_).aloud is False and type(Some(names=np.array(["a"])).names[0]) is str


def test_what_changed_is_what_numbers_depend_on():
    assert Some(place="elsewhere", share=0.25, names=("a", "b")).changed() == {"share": 0.25}
    assert Some().replaced(batch_size=1).changed() == {"batch_size": 1}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seed": -1}, "seed=-1: expected a number from 0 to 4294967295"),
        ({"seed": 2**32}, "seed=4294967296: expected a number from 0 to 4294967295"),
        ({"seed": 1.0}, r"seed=1\.0: expected a whole number"),
        ({"seed": True}, "seed=True: expected a whole number"),
        ({"seed": None}, "seed=None: expected a whole number"),
        ({"batch_size": 0}, "batch_size=0: expected a number from 1 on"),
        ({"names": "a,b"}, "names='a,b': expected a list of names"),
        ({"names": [3]}, r"names=\[3\]: expected a list of names"),
        ({"count": 0}, "count=0: expected a positive number or 'all'"),
        ({"count": "some"}, "count='some': expected a positive number or 'all'"),
        ({"count": None}, "count=None: expected a positive number or 'all'"),
        ({"perhaps": 1.5}, r"perhaps=1\.5: expected a positive number or 'all'"),
        ({"other": 3}, "other=3: expected text"),
        ({"other": b"a"}, "other=b'a': expected text"),
        ({"names": [b"a"]}, r"names=\[b'a'\]: expected a list of names"),
        ({"share": np.True_}, "share=.*True_?: expected a finite number"),
        ({"share": float("nan")}, "share=nan: expected a finite number"),
        ({"share": 1.5}, r"share=1\.5: expected a number from 0 to 1"),
        ({"share": "1"}, "share='1': expected a finite number"),
        ({"way": "third"}, "way='third': choose of 'first', 'second'"),
        ({"aloud": 1}, "aloud=1: expected True or False"),
    ],
)
def test_what_is_invalid_is_named(values, message):
    with pytest.raises(BadInput, match=f"^{message}$"):
        Some(**values)


@pytest.mark.parametrize("kind", ALL)
def test_every_setting_says_what_it_is_and_its_default_is_valid(kind):
    assert kind() == kind()
    values = flags.FlagValues()
    define_settings(values, kind)
    values(["program"])
    assert settings_of(values, kind) == kind()
    for name, _, described in described_fields(kind):
        assert described.help and described.help in values[name].help
