"""Small sets and small models for BIM's tests, made once."""

import copy
import json
import os
import pathlib
import shutil

import numpy as np
import pytest

from attribution_benchmarks.core import evaluation
from bim import classifiers, construct, layout, metrics, models
from bim.data import load_set
from bim.synthetic import drawings

NUM_VAL = 2


@pytest.fixture(scope="session")
def bim_run():
    """A function from flags of ``bim.metrics`` to its ``BimEvaluation``."""

    def load(*flags):
        flag_values = copy.deepcopy(metrics.FLAGS)
        flag_values.unparse_flags()
        flag_values(["metrics", *flags])
        return evaluation.load(metrics.COMMAND.run(flag_values))

    return load


@pytest.fixture(scope="session")
def corpora(tmp_path_factory):
    """Drawings in the layouts of MSCOCO and MiniPlaces, with COCO's annotations."""
    directory = tmp_path_factory.mktemp("corpora")
    images, annotations = [], []
    for index in (0, 900, 901):
        for name in layout.SCENES:
            drawings.draw_source((str(directory), "scene", name, index, 0))
        for category, name in enumerate(layout.OBJECTS):
            entry = drawings.draw_source((str(directory), "object", name, index, 0))
            file = pathlib.Path(entry["path"]).name
            image = {"id": int(file[:-4]), "file_name": file, "height": entry["height"], "width": entry["width"]}
            images.append(image)
            annotations.append(
                {
                    "id": len(images), "image_id": image["id"], "category_id": category, "iscrowd": 0, "area": 1,
                    "segmentation": entry["segmentation"],
                }
            )  # fmt: skip
    categories = [{"id": number, "name": layout.coco_name(name)} for number, name in enumerate(layout.OBJECTS)]
    document = {"images": images, "annotations": annotations, "categories": categories}
    (directory / "coco" / "annotations").mkdir()
    (directory / "coco" / "annotations" / "instances_train2017.json").write_text(json.dumps(document))
    return str(directory)


@pytest.fixture(scope="session")
def construct_sets(corpora):
    def run(data_dir, **options):
        coco = os.path.join(corpora, "coco")
        construct.construct(
            str(data_dir),
            os.path.join(coco, "annotations", "instances_train2017.json"),
            os.path.join(coco, "train2017"),
            os.path.join(corpora, "miniplaces"),
            **{"num_train": 1, "num_val": NUM_VAL, "seed": 0, **options},
        )
        return str(data_dir)

    return run


@pytest.fixture(scope="session")
def sets(construct_sets, tmp_path_factory):
    return construct_sets(tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="session")
def copy_sets(sets):
    """A function that copies the sets. JPEG files are hard links: replace them, never write into them."""

    def copy_file(source, target):
        return os.link(source, target) if source.endswith(".jpg") else shutil.copy2(source, target)

    return lambda data_dir: shutil.copytree(sets, data_dir, copy_function=copy_file, dirs_exist_ok=True)


@pytest.fixture
def copied(copy_sets, tmp_path):
    return copy_sets(tmp_path / "data")


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory):
    """Untrained networks with four channels a stage: two of them, under all of BIM's names in turn."""
    import keras

    from bim.layout import MODEL_NAMES

    directory = str(tmp_path_factory.mktemp("models"))
    for number, name in enumerate(MODEL_NAMES):
        path = os.path.join(directory, name)
        if number > 1:
            shutil.copytree(os.path.join(directory, MODEL_NAMES[number % 2]), path)
            continue
        keras.utils.set_random_seed(number)
        network = models.small_resnet(32, normalized=False, widths=(4, 4, 4, 4))
        randomise(network, number)
        models.export(network, path, f"# {name}\n")
    return directory


def randomise(network, seed):
    """Give every weight, biases too, a random value, so that no mistake hides behind a zero."""
    rng = np.random.default_rng(seed)
    for layer in network.layers:
        layer.set_weights([w + 0.1 * rng.standard_normal(w.shape) for w in layer.get_weights()])


@pytest.fixture(scope="session")
def upstream_models(tmp_path_factory):
    """SavedModels of TensorFlow 1 with the authors' tensor names and no signature."""
    import tensorflow as tf

    v1 = tf.compat.v1
    directory = str(tmp_path_factory.mktemp("upstream"))

    def convolution(x, name, width, stride, rng):
        shape = (3, 3, int(x.shape[-1]), width)
        kernel = v1.get_variable(name, initializer=(rng.standard_normal(shape) * 0.3).astype(np.float32))
        return tf.nn.conv2d(x, kernel, stride, "SAME")

    for seed, name in enumerate(("obj", "scene", "scene_only")):
        rng = np.random.default_rng(seed)
        graph = tf.Graph()
        with graph.as_default(), v1.Session(graph=graph) as session:
            x = v1.placeholder(tf.float32, (None, 32, 32, 3), "input_tensor")
            with v1.variable_scope("resnet_model"):
                for block in range(1, 5):
                    shortcut = convolution(x, f"shortcut{block}", 4, 2 if block < 4 else 1, rng)
                    inner = tf.nn.relu(convolution(x, f"first{block}", 4, 2 if block < 4 else 1, rng))
                    x = tf.nn.relu(shortcut + convolution(inner, f"second{block}", 4, 1, rng))
                    x = tf.identity(x, f"block_layer{block}")
                weights = v1.get_variable("dense", initializer=rng.standard_normal((4, 10)).astype(np.float32) * 0.01)
                tf.identity(tf.matmul(tf.reduce_mean(x, (1, 2)), weights), "final_dense")
            session.run(v1.global_variables_initializer())
            builder = v1.saved_model.Builder(os.path.join(directory, name))
            builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map={})
            builder.save()
    return directory


@pytest.fixture
def predicted(copy_sets, tiny_models, tmp_path):
    """Sets labelled with what the model obj predicts, so that all images count where it stands twice."""
    data_dir = copy_sets(str(tmp_path / "data"))
    model = classifiers.load_classifier(tiny_models, "obj")
    for set_name in ("obj", "scene", "dog_bedroom"):
        images = load_set(data_dir, set_name)
        labels = model.predict(classifiers.network_inputs(images.images(range(len(images))), 32))
        with open(os.path.join(data_dir, set_name, "val.txt"), "w") as file:
            file.writelines(f"{name} {label}\n" for name, label in zip(images.names, labels, strict=True))
    return data_dir
