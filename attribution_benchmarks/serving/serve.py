"""Serve a directory of models with their explanations by TensorFlow Serving: gRPC on port 8500, REST on port 8501.

    attribution-benchmarks serve
    attribution-benchmarks serve --models=DIR
    attribution-benchmarks serve --stand_in       # without Docker: a small server in Python, for trying things out
    attribution-benchmarks serve --export_only    # write the served files and stop

A model is a folder of DIR, at any depth, with numbered versions, as in DIR/MODEL/1/saved_model.pb, of which the latest
is served. Its name is its path: own_digits is DIR/own/digits. The served files are exported once to DIR/served/NAME,
without the methods that do not fit a model; a model that has explanations already is served as it is. DIR/models.config
may list what is served; without one DIR/served/models.config is written, which lists all. DIR is saved_models of the
checkout by default, which an installed package has no place for. Both servers are reachable from this machine alone:
they have no authentication. --stand_in needs a checkout, since the small server belongs to the tests.

Cost: about 5 CPU seconds a model until all are ready at the first start on a fresh clone with --stand_in, some 4 of
them for writing its served file; for 19 models 14 CPU seconds in all and 1.5 GB at the next start.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Mapping

from absl import flags

from attribution import cli
from attribution.errors import BadInput, installation, listed, print_line
from attribution.export import _by_signature, export
from attribution.export.signatures import SHEET
from attribution.files import atomic_write
from attribution.methods.registry import with_parameters
from attribution.savedmodel.paths import fingerprint
from attribution_benchmarks.core.bundled_models import models_folder

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "models", "", "directory of the models and of models.config; saved_models of the checkout when empty",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_bool("stand_in", False, "serve by the small server of the tests, without Docker", flag_values=FLAGS)
flags.DEFINE_bool("export_only", False, "write the served files and stop", flag_values=FLAGS)
for protocol, port in (("gRPC", 8500), ("REST", 8501)):
    flags.DEFINE_integer(
        f"{protocol.lower()}_port", port, f"port of {protocol}", lower_bound=1, upper_bound=65535, flag_values=FLAGS
    )
cli.define_common_flags(FLAGS, methods=["gradient", "integrated_gradients", "guided_backprop", "grad_cam"])
flags.DEFINE_string("image", "tensorflow/serving", "image that Docker runs", flag_values=FLAGS)
STAND_IN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "stand_in_server" / "stand_in.py"
_SERVED = "served"  # the folder of what is made here
_CONFIG = "models.config"
_SCORES = {"svea": "probabilities"}  # what the models of a folder explain, where it is not the logit


def main(flag_values: flags.FlagValues) -> None:
    """Export what is missing, and become the server."""
    grpc, rest = flag_values.grpc_port, flag_values.rest_port
    if grpc == rest:
        raise BadInput(f"--grpc_port and --rest_port are both {grpc}; choose another for one of them")
    models = pathlib.Path(flag_values.models or models_folder()).resolve()
    config = models / _CONFIG
    if not flag_values.models and not config.is_file():
        raise BadInput(f"no {config}; name a directory of models, such as saved_models of a checkout, by --models=DIR")
    if not flag_values.export_only:
        _check_server(flag_values.stand_in)
    config = _export_missing(models, config, flag_values)
    if flag_values.export_only:
        return
    if flag_values.stand_in:
        command = [
            sys.executable, str(STAND_IN), f"--config={config}", f"--root={models}", f"--grpc_port={grpc}",
            f"--rest_port={rest}",
        ]  # fmt: skip
    else:
        command = [
            "docker", "run", "--rm", "--publish", f"127.0.0.1:{grpc}:8500", "--publish", f"127.0.0.1:{rest}:8501",
            "--mount", f"type=bind,source={models},target=/models,readonly", flag_values.image,
            f"--model_config_file={_mounted(models, config)}",
        ]  # fmt: skip
    os.execvp(command[0], command)


def _check_server(stand_in: bool) -> None:
    """Raise ``BadInput`` if the server cannot be started, before anything is exported."""
    if not stand_in:
        if shutil.which("docker") is None:
            raise BadInput("no docker; install it, or add --stand_in in a checkout of the repository")
        return
    if not STAND_IN.is_file():
        raise BadInput(f"no {STAND_IN}; --stand_in needs a checkout of the repository, use Docker without it")
    try:
        importlib.import_module("grpc")
        importlib.import_module("tensorflow_serving")
    except ImportError as error:
        raise BadInput(f"--stand_in needs tensorflow-serving-api, also for REST: {installation('serving')}") from error


def _export_missing(models: pathlib.Path, config: pathlib.Path, flag_values: flags.FlagValues) -> pathlib.Path:
    """Export what is to be served and is not there; return the models.config, which is written if there is none.

    One process exports all, because most of the time of a single export is TensorFlow's start. Raises ``BadInput`` if a
    model that the user's models.config lists is not there or cannot be exported, or there is no model.
    """
    methods = _by_signature(flag_values.methods)
    with_parameters(methods)  # a wrong name is found before the first export
    found, wanted = _find_models(models), _listed(models, config)
    served = {
        name: saved.parent if SHEET.encode() in (saved / "saved_model.pb").read_bytes() else models / _SERVED / name
        for name, saved in found.items()
    }
    if missing := [path for path in wanted if path not in served.values() and not _versions(path)]:
        known = listed(_mounted(models, each) for each in served.values()) or "none"
        raise BadInput(f"{config}: {_mounted(models, missing[0])} is not a model; the models in {models} are {known}")
    chosen = {name: path for name, path in served.items() if not wanted or path in wanted}
    new = [name for name, path in chosen.items() if not (path / found[name].name).exists()]
    if new:
        print_line(f"{len(new)} models to export, about 5 CPU seconds each", file=sys.stderr)
    for name, path in chosen.items():
        if name in new:
            print_line(f"exporting {path}, {new.index(name) + 1} of {len(new)}", file=sys.stderr)
        _export(name, found[name], path, methods, _SCORES.get(found[name].relative_to(models).parts[0]))
    if wanted:
        if missed := [path.name for path in wanted if not _versions(path)]:
            raise BadInput(f"{config} lists what could not be exported: {listed(missed)}; remove the entries")
        return config
    bases = {path.name: path for path in sorted((models / _SERVED).glob("*"))} | served
    entries = [
        f'  config {{ name: "{name}" base_path: "{_mounted(models, path)}" model_platform: "tensorflow" }}\n'
        for name, path in bases.items()
        if _versions(path)
    ]
    if not entries and not served:
        raise BadInput(f"there is no model in {models}; expected a folder with a version, as in MODEL/1/saved_model.pb")
    if not entries:
        raise BadInput(f"{len(served)} of {len(served)} models could not be exported: {listed(served)}")
    atomic_write(models / _SERVED / _CONFIG, f"model_config_list {{\n{''.join(entries)}}}\n")
    return models / _SERVED / _CONFIG


def _export(name: str, saved: pathlib.Path, base: pathlib.Path, methods: Mapping[str, str], score: str | None) -> None:
    """Export a model with explanations unless that was done, and print what is skipped.

    Raises ``BadInput`` if it was exported from another file, such as the same model before it was trained again.
    """
    target = base / saved.name
    if target == saved:
        return
    if target.exists():
        if fingerprint(saved).encode() not in (target / "saved_model.pb").read_bytes():
            raise BadInput(
                f"'{target}' was exported from another file than '{saved}' is now; remove it, to be exported again, or "
                "give the new model the next version"
            )
        return
    left_out: dict[str, str] = {}
    try:
        export(saved, target, methods, score=score, left_out=left_out)
    except BadInput as error:
        left_out = {"": f"it is skipped: {error}"}
    for reason in [*left_out.values(), *([cli.inspect_hint(saved)] if left_out else [])]:
        print_line(f"{name}: {reason}", file=sys.stderr)


def _find_models(models: pathlib.Path) -> dict[str, pathlib.Path]:
    """Return the name of each model below a directory, and its latest version.

    Raises
    ------
    BadInput
        If two would have the same name.
    """
    found: dict[str, pathlib.Path] = {}
    for file in sorted(models.rglob("saved_model.pb")):
        version, base = file.parent, file.parent.parent
        parts = version.relative_to(models).parts
        if not version.name.isdecimal() or parts[0] == _SERVED or any(part.startswith(".") for part in parts):
            continue
        name = "_".join(parts[:-1])
        if not name:
            raise BadInput(f"{models} is a model itself; name the directory that holds it")
        if name in found and found[name].parent != base:
            raise BadInput(f"{found[name].parent} and {base} would both be served as '{name}'; rename one")
        found[name] = _versions(base)[-1]
    return found


def _versions(directory: pathlib.Path) -> list[pathlib.Path]:
    """Return the versions of a model, the latest last; none if the directory is not a model."""
    files = directory.glob("*/saved_model.pb")
    return sorted((file.parent for file in files if file.parent.name.isdecimal()), key=lambda path: int(path.name))


def _listed(models: pathlib.Path, config: pathlib.Path) -> list[pathlib.Path]:
    """Return the base paths in a models.config, with the directory in place of /models; none without such a file."""
    try:
        text = config.read_text("utf-8") if config.exists() else ""
    except (OSError, ValueError) as error:
        raise BadInput(f"{config} cannot be read: {error}") from error
    paths = re.findall(r"""base_path\s*:\s*["']([^"']*)["']""", re.sub("#.*", "", text))
    for path in paths:
        if not os.path.normpath(path).startswith("/models/"):
            raise BadInput(f"{config} has base_path '{path}'; expected /models/..., which means {models}")
    return [models / os.path.relpath(path, "/models") for path in paths]


def _mounted(models: pathlib.Path, path: pathlib.Path) -> str:
    """Return a path as the server in Docker sees it."""
    return f"/models/{path.relative_to(models).as_posix()}"


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
