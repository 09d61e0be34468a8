"""Serve a directory of models with their explanations by TensorFlow Serving: gRPC on port 8500, REST on port 8501.

    attribution-benchmarks serve
    attribution-benchmarks serve --models=DIR
    attribution-benchmarks serve --stand_in       # without Docker: a small server in Python, for trying things out
    attribution-benchmarks serve --export_only    # write the served files and stop

DIR has models as BENCHMARK/MODEL/VERSION and a models.config that lists what is served. By default it is saved_models
of the checkout; an installed package has the models without that file. The served files are exported once to
DIR/served. Both servers are reachable from this machine alone: they have no authentication. --stand_in needs a
checkout, since the small server belongs to the tests.

Cost: about 5 CPU seconds a model until all are ready at the first start on a fresh clone with --stand_in, some 4 of
them for writing its served file; for 19 models 14 CPU seconds in all and 1.5 GB at the next start.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import shutil
import sys

from absl import flags

from attribution import cli
from attribution.errors import BadInput, print_line
from attribution_benchmarks.cli.bundled_models import models_folder

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "models", "", "directory of the models and of models.config; saved_models of the checkout when empty",
    flag_values=FLAGS,
)  # fmt: skip
flags.DEFINE_bool("stand_in", False, "serve by the small server of the tests, without Docker", flag_values=FLAGS)
flags.DEFINE_bool("export_only", False, "write the served files and stop", flag_values=FLAGS)
flags.DEFINE_integer("grpc_port", 8500, "port of gRPC", flag_values=FLAGS)
flags.DEFINE_integer("rest_port", 8501, "port of REST", flag_values=FLAGS)
flags.DEFINE_string("image", "tensorflow/serving", "image that Docker runs", flag_values=FLAGS)
STAND_IN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "stand_in_server" / "stand_in.py"
OTHERS = ("served", "exact")  # what is made here, and hand-set networks without a layer that Grad-CAM could take
METHODS = ["gradient", "integrated_gradients", "guided_backprop", "grad_cam"]  # explanations in each
SCORES = {"svea": "probabilities"}  # what a benchmark explains, where it is not the logit


def main(flag_values: flags.FlagValues) -> None:
    """Export what is missing, and become the server."""
    models = pathlib.Path(flag_values.models or models_folder()).resolve()
    config = models / "models.config"
    if not flag_values.export_only:
        _check_server(flag_values.stand_in, config)
    _export_missing(models)
    if flag_values.export_only:
        return
    grpc, rest = flag_values.grpc_port, flag_values.rest_port
    if flag_values.stand_in:
        command = [
            sys.executable, str(STAND_IN), f"--config={config}", f"--root={models}", f"--grpc_port={grpc}",
            f"--rest_port={rest}",
        ]  # fmt: skip
    else:
        command = [
            "docker", "run", "--rm", "--publish", f"127.0.0.1:{grpc}:8500", "--publish", f"127.0.0.1:{rest}:8501",
            "--mount", f"type=bind,source={models},target=/models,readonly", flag_values.image,
            "--model_config_file=/models/models.config",
        ]  # fmt: skip
    os.execvp(command[0], command)


def _check_server(stand_in: bool, config: pathlib.Path) -> None:
    """Raise ``BadInput`` if the server cannot be started, before anything is exported."""
    if not stand_in and shutil.which("docker") is None:
        raise BadInput("no docker; install it, or add --stand_in in a checkout of the repository")
    if stand_in:
        if not STAND_IN.is_file():
            raise BadInput(f"no {STAND_IN}; --stand_in needs a checkout of the repository, use Docker without it")
        try:
            for name in ("grpc", "tensorflow_serving"):
                importlib.import_module(name)
        except ImportError as error:
            raise BadInput(
                "--stand_in needs tensorflow-serving-api: pip install 'attribution-benchmarks[serving]'"
            ) from error
    if not config.is_file():
        raise BadInput(
            f"no {config}; name a directory with a models.config, such as saved_models of a checkout, by --models=DIR"
        )


def _export_missing(models: pathlib.Path) -> None:
    """Export each ``benchmark/model/version`` with explanations to the folder ``served``, if it is not there.

    One process exports all, because most of the time of a single export is TensorFlow's start. A model that cannot be
    exported raises ``BadInput`` after the others.
    """
    waiting = [
        (directory, models / "served" / f"{directory.parent.name}_{directory.name}")
        for directory in sorted(models.glob("*/*/"))
        if directory.parent.name not in OTHERS and directory.is_dir()
    ]
    if not waiting:
        raise BadInput(f"there is no <benchmark>/<model> in '{models}'")
    failed = []
    for directory, served in waiting:
        if (served / "1" / "saved_model.pb").exists():
            continue
        from attribution.export import export

        print_line(f"exporting {served}", file=sys.stderr)
        left_out: dict[str, str] = {}
        try:
            score = SCORES.get(directory.parent.name, "logits")
            export(os.fspath(directory), served, METHODS, score=score, left_out=left_out)
        except BadInput as error:
            failed.append(served.name)
            print_line(f"{served.name}: {error}", file=sys.stderr)
        for reason in left_out.values():
            print_line(f"{served.name}: {reason}", file=sys.stderr)
    if failed:
        raise BadInput(f"{len(failed)} of {len(waiting)} models could not be exported: {', '.join(failed)}")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
