"""Compare two models behind TensorFlow Serving on the same images, side by side.

    python scripts/compare_served_models.py --server=grpc://localhost:8500 --models=bim_obj,bim_scene
    python scripts/compare_served_models.py --server=http://localhost:8501 --models=mine@1,mine@2 --labels=scene,scene

prints accuracy, latency and throughput of both models, and how often they predict the same class, with 95 % intervals.
--output=FILE.json writes all results. Latencies depend on the machine and its connection; the other results are
reproducible. The contrast of their explanations is the metric MCS of python -m bim.metrics --server=...

Cost: requests only. To each model 30 timed ones, and one for each batch of 16 images.
"""

import os
import sys
import time

from absl import flags

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from attribution import cli
from attribution.errors import BadInput, print_text
from attribution_benchmarks.core import manifest, scores, tables

FLAGS = flags.FlagValues()
cli.define_common_flags(
    FLAGS, data_dir="", num_imgs=20, batch_size=16, seed=0, output="", cache_dir="", deadline=60.0, retry_timeout=120.0
)
flags.DEFINE_string("server", "", "grpc://host:8500 or http://host:8501", flag_values=FLAGS)
flags.DEFINE_list("models", ["bim_obj", "bim_scene"], "two served models: name or name@version", flag_values=FLAGS)
flags.DEFINE_list("labels", ["obj", "scene"], "what each predicts, obj (objects) or scene", flag_values=FLAGS)
flags.DEFINE_integer("requests", 30, "timed requests to each model", 1, flag_values=FLAGS)
PERCENTILES = (50, 90, 99)


def time_requests(models, inputs, requests: int, clock=time.perf_counter):
    """Return the seconds of requests for scores, (2, requests), alternating between two models with their inputs.

    Each model answers one more request before, to warm up.
    """
    import numpy as np

    seconds = np.empty((2, requests + 1))
    for request in range(requests + 1):
        for number, model in enumerate(models):
            start = clock()
            model.scores(inputs[number], batch_size=len(inputs[number]))
            seconds[number, request] = clock() - start
    return seconds[:, 1:]


def score_rows(names, predicted, labels, seconds, batch_size: int, one_kind: bool = True) -> list[dict]:
    """Return rows in long form: intervals are over the images, latencies in milliseconds, of one connection.

    ``predicted`` and ``labels`` are (2, images), ``seconds`` (2, requests). Equal classes mean agreement for labels of
    ``one_kind`` alone.
    """
    import numpy as np

    from attribution_benchmarks.stats import statistics

    shares = {(name, "accuracy"): hits for name, hits in zip(names, predicted == labels, strict=True)}
    if one_kind:
        shares[", ".join(names), "agreement"] = predicted[0] == predicted[1]
    common = {"method": "prediction", "paper": None, "kind": "method"}
    rows = []
    for (name, metric), values in shares.items():
        mean = statistics.mean_interval(values.astype(np.float64), rate=1.0, bounds=(0.0, 1.0))
        interval = {"value": mean.value, "low": mean.low, "high": mean.high, "n": len(values)}
        rows.append({"model": name, "metric": metric, **interval, **common})
    for name, times in zip(names, seconds, strict=True):
        figures = {f"latency_p{share}_ms": 1000 * np.percentile(times, share) for share in PERCENTILES}
        figures["images_per_second"] = batch_size * len(times) / times.sum()
        common |= {"model": name, "low": None, "high": None, "n": len(times)}
        rows += [{"metric": metric, "value": float(value), **common} for metric, value in figures.items()]
    return rows


def main(flag_values: flags.FlagValues) -> None:
    """Print the comparison and write the output file."""
    import numpy as np

    from attribution_benchmarks import serving
    from bim.classifiers import input_side, network_inputs
    from bim.data import load_set, resolve_data_dir
    from bim.scores import sample_rows
    from bim.served import served_classifier

    names, labels, batch_size = flag_values.models, flag_values.labels, flag_values.batch_size
    if not flag_values.server:
        raise BadInput("--server is empty; expected grpc://host:8500 or http://host:8501")
    if len(names) != 2 or names[0] == names[1]:
        raise BadInput(f"--models={','.join(names)}: expected two different served models")
    if len(labels) != 2 or not set(labels) <= {"obj", "scene"}:
        raise BadInput(f"--labels={','.join(labels)}: expected obj or scene for each of the two models")
    scores.check_output(flag_values.output)
    client = serving.Client(flag_values.server, deadline=flag_values.deadline, retry_timeout=flag_values.retry_timeout)
    models = [served_classifier(client, name) for name in names]
    data_dir = resolve_data_dir(flag_values.data_dir)
    sets = [load_set(data_dir, name) for name in labels]
    if sets[0].names != sets[1].names:
        raise BadInput(f"the sets {' and '.join(labels)} in {data_dir} have different images")
    rows = sample_rows(len(sets[0]), flag_values.num_imgs, flag_values.seed)
    images = sets[0].images(rows)
    inputs = [network_inputs(images, input_side(model)) for model in models]
    predicted = np.stack([model.predict(given, batch_size) for model, given in zip(models, inputs, strict=True)])
    batches = [np.resize(given, (batch_size, *given.shape[1:])) for given in inputs]
    seconds = time_requests(models, batches, flag_values.requests)
    wanted = np.stack([one.labels[rows] for one in sets])
    found = score_rows(names, predicted, wanted, seconds, batch_size, labels[0] == labels[1])
    body = [
        [row["model"], row["metric"], f"{row['value']:.3f}"]
        + ["" if row["low"] is None else f"{row['low']:.3f}, {row['high']:.3f}"]
        for row in found
    ]
    header = ["model", "measured", "mean", "95 %"]
    text, markdown = tables.text_table(header, body), tables.markdown_table(header, body)
    print_text(text)
    if flag_values.output:
        description = manifest.describe_run(
            "bim",
            {name: model.fingerprint for name, model in zip(names, models, strict=True)},
            {name: images.fingerprint() for name, images in zip(labels, sets, strict=True)},
            flag_values.seed,
            manifest.command_of(
                "python scripts/compare_served_models.py", cli.given(flag_values, without=("cache_dir", "output"))
            ),
        )
        rows = list(map(tables.plain, found))
        scores.Scores(rows, text=text, markdown=markdown, manifest=description).save(flag_values.output)


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
