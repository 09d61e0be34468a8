"""Compare two models behind TensorFlow Serving on the same images, side by side.

    python scripts/compare_served_models.py --server=grpc://localhost:8500 --models=bim_obj,bim_scene
    python scripts/compare_served_models.py --server=http://localhost:8501 --models=mine@1,mine@2 --labels=scene,scene

prints accuracy, latency and throughput of both models, the agreement of their predictions, the correlation of their
explanations, and their model contrast score (MCS, first minus second), with 95 % intervals. --output=FILE.json writes
all results. Latencies depend on the machine and its connection; all other results are reproducible.

Cost: requests only. To each model 30 timed ones, one for the scores of each batch of 16 images, and one or more for
each method.
"""

import os
import sys

from absl import flags

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from attribution import cli
from attribution.errors import BadInput, print_text
from attribution_benchmarks.core import manifest, tables
from bim import served

FLAGS = flags.FlagValues()
cli.define_common_flags(
    FLAGS,
    methods=["gradient", "grad_cam"],
    data_dir="",
    num_imgs=20,
    batch_size=16,
    seed=0,
    output="",
    cache_dir="",
    deadline=60.0,
    retry_timeout=120.0,
)
flags.DEFINE_string("server", "", "grpc://host:8500 or http://host:8501", flag_values=FLAGS)
flags.DEFINE_list("models", ["bim_obj", "bim_scene"], "two served models: name or name@version", flag_values=FLAGS)
flags.DEFINE_list(
    "labels", [], "what each model predicts, as in --labels=obj,scene; by BIM's names when empty", flag_values=FLAGS
)
flags.DEFINE_integer("requests", 30, "timed requests to each model", 1, flag_values=FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Print the comparison and write the output file."""
    from attribution_benchmarks import serving
    from bim.attributions import method_named
    from bim.classifiers import input_side, network_inputs
    from bim.dataset import load_set, resolve_data_dir
    from bim.scores import sample_rows

    names = flag_values.models
    if not flag_values.server:
        raise BadInput("--server is empty; expected grpc://host:8500 or http://host:8501")
    if len(names) != 2 or names[0] == names[1]:
        raise BadInput(f"--models={','.join(names)}: expected two different served models")
    tables.check_output(flag_values.output)
    kinds = served.kinds_of(names, flag_values.labels)
    methods = {name: serving.as_served(method_named(name)) for name in flag_values.methods}
    client = serving.Client(flag_values.server, deadline=flag_values.deadline, retry_timeout=flag_values.retry_timeout)
    models = [served.served_classifier(client, name) for name in names]
    served.check_methods(models, methods)
    data_dir = resolve_data_dir(flag_values.data_dir)
    sets = {name: load_set(data_dir, name) for name in served.LABEL_SETS}
    if sets["obj"].names != sets["scene"].names:
        raise BadInput(f"the sets obj and scene in {data_dir} have different images")
    rows = sample_rows(len(sets["obj"]), flag_values.num_imgs, flag_values.seed)
    seed, batch_size = flag_values.seed, flag_values.batch_size
    found = served.compare(models, names, kinds, sets, rows, methods, seed, batch_size, progress=True)
    images = sets["obj"].images((rows * batch_size)[:batch_size])
    inputs = network_inputs(images, input_side(models[0]))
    found += served.time_requests(models, names, inputs, flag_values.requests)
    text = served.report(found)
    print_text(text)
    if flag_values.output:
        description = manifest.describe_run(
            "bim",
            {name: model.fingerprint for name, model in zip(names, models, strict=True)},
            {name: images.fingerprint() for name, images in sets.items()},
            seed,
            manifest.command_of(
                "python scripts/compare_served_models.py", cli.given(flag_values, without=("cache_dir", "output"))
            ),
        )
        tables.save(flag_values.output, found, description, text=text)


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
