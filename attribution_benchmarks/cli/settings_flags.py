"""Flags derived from a class of settings, and settings from parsed flags."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from absl import flags

from attribution_benchmarks.core.settings import ALL, Names, Setting, Settings, described_fields, is_count

flags.disclaim_key_flags()  # they belong to the command that calls ``define_settings``
_Settings = TypeVar("_Settings", bound=Settings)


def define_settings(flag_values: flags.FlagValues, settings: type[Settings]) -> None:
    """Define a flag for each field of a class of settings."""
    defaults = settings()
    for name, kind, described in described_fields(settings):
        if name not in flag_values:
            _define(flag_values, name, kind, described, getattr(defaults, name))


def settings_of(flag_values: flags.FlagValues, settings: type[_Settings]) -> _Settings:
    """Return the settings that the flags describe."""
    return settings(**{name: flag_values[name].value for name, *_ in described_fields(settings)})


def _define(flag_values: flags.FlagValues, name: str, kind: Any, described: Setting, default: Any) -> None:
    options = typing.get_args(kind) or (kind,)
    bounds: Mapping[str, Any] = {"lower_bound": described.low, "upper_bound": described.high}
    if is_count(kind):
        _define_count(flag_values, name, described, default)
    elif kind == Names:
        flags.DEFINE_list(name, list(default), described.help, flag_values=flag_values)
    elif described.choices:
        flags.DEFINE_enum(name, default, list(described.choices), described.help, flag_values=flag_values)
    elif bool in options:
        flags.DEFINE_bool(name, default, described.help, flag_values=flag_values)
    elif int in options:
        flags.DEFINE_integer(name, default, described.help, flag_values=flag_values, **bounds)
    elif float in options:
        flags.DEFINE_float(name, default, described.help, flag_values=flag_values, **bounds)
    else:
        flags.DEFINE_string(name, default, described.help, flag_values=flag_values)


def _define_count(flag_values: flags.FlagValues, name: str, described: Setting, default: Any) -> None:
    flags.DEFINE_string(name, None if default is None else str(default), described.help, flag_values=flag_values)
    flags.register_validator(
        name,
        lambda value: value is None or value == ALL or (value.isdecimal() and int(value) > 0),
        message="must be a positive number or 'all'",
        flag_values=flag_values,
    )
