"""Files that Keras saved, and what is refused of them."""

import hashlib
import io
import json
import pickle
import zipfile

import h5py
import keras
import numpy as np
import pytest
import tf_keras

import attribution
from attribution.errors import BadInput
from attribution.files import origin
from attribution.savedmodel import keras_files
from attribution.savedmodel.paths import is_keras_file

INPUTS = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTRIBUTION_BENCHMARKS_CACHE", str(tmp_path / "cache"))


def network(library=keras):
    layers = library.layers
    built = library.Sequential(
        [layers.Input((4,)), layers.Dense(5, "relu"), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(3)]
    )
    generator = np.random.default_rng(1)
    built.set_weights([generator.uniform(0.5, 1.5, weight.shape) for weight in built.get_weights()])
    return built


@pytest.mark.parametrize("name", ["a.keras", "a.h5", "a.HDF5", "a.KERAS"])
def test_a_file_is_explained_as_its_live_model(name, tmp_path):
    live, path = network(), tmp_path / name
    live.save(tmp_path / name.lower())
    (tmp_path / name.lower()).rename(path)
    model = attribution.load_model(path)
    np.testing.assert_allclose(model.scores(INPUTS), live.predict(INPUTS, verbose=0), rtol=1e-6)
    ours = attribution.load_model(live)
    for method in ("gradient", "lrp_epsilon"):
        np.testing.assert_array_equal(
            attribution.explain(method, model, INPUTS), attribution.explain(method, ours, INPUTS)
        )
    assert origin(model.path) == str(path)


def test_a_file_is_converted_once_for_its_content(tmp_path, monkeypatch):
    path = tmp_path / "a.keras"
    network().save(path)
    first = attribution.load_model(path)
    time = (first.path / "saved_model.pb").stat().st_mtime_ns
    again = attribution.load_model(path)
    assert (again.path, again.fingerprint) == (first.path, first.fingerprint)
    assert (again.path / "saved_model.pb").stat().st_mtime_ns == time
    other = network()
    with monkeypatch.context() as patch:  # another Keras may compute other numbers
        patch.setattr(keras_files.importlib.metadata, "version", lambda name: f"{name} 99")
        assert attribution.load_model(path).path != first.path
    other.set_weights([2 * weight for weight in other.get_weights()])
    other.save(path)
    np.testing.assert_allclose(attribution.load_model(path).scores(INPUTS), other.predict(INPUTS, verbose=0), rtol=1e-6)


def test_a_method_finds_the_live_network_in_the_file(tmp_path):
    network().save(tmp_path / "a.keras")
    model = attribution.load_model(tmp_path / "a.keras")
    (maps,) = attribution.explain(
        lambda queries: np.tile(queries.keras_model(INPUTS[:1])[:, :1], (1, 4)), model, INPUTS[:1]
    )
    np.testing.assert_allclose(maps, np.full(4, model.scores(INPUTS)[0, 0]), rtol=1e-6)


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_file_of_keras_2_computes_what_keras_2_did(suffix, tmp_path):
    live = network(tf_keras)
    live.add(tf_keras.layers.Activation("hard_sigmoid"))  # another function in Keras 3
    live.save(tmp_path / f"a{suffix}")
    model = attribution.load_model(tmp_path / f"a{suffix}", score="output")
    np.testing.assert_allclose(model.scores(INPUTS), live.predict(INPUTS, verbose=0), rtol=1e-6)


def test_arithmetic_of_keras_2_is_read_and_other_functions_of_tensorflow_are_not(tmp_path):
    inputs = tf_keras.layers.Input((4,))
    live = tf_keras.Model(inputs, tf_keras.layers.Dense(2)(inputs * 2.0))
    live.save(tmp_path / "a.h5")
    model = attribution.load_model(tmp_path / "a.h5")
    np.testing.assert_allclose(model.scores(INPUTS), live.predict(INPUTS, verbose=0), rtol=1e-6)
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        text = file.attrs["model_config"].replace("math.multiply", "io.write_file").replace("__operators__", "io")
        file.attrs["model_config"] = text
    with pytest.raises(BadInput, match=r"the TFOpLambda layer '.*', which may do more than compute"):
        attribution.load_model(tmp_path / "a.h5")


def test_without_tf_keras_a_file_of_keras_2_is_one_line(tmp_path, monkeypatch):
    network(tf_keras).save(tmp_path / "a.h5")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"was saved by Keras 2\..*pip install 'tf_keras==2\."):
        attribution.load_model(tmp_path / "a.h5")


@pytest.mark.parametrize("library", [keras, tf_keras])
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_lambda_layer_is_refused_and_not_run(library, suffix, tmp_path):
    layers, trace = library.layers, tmp_path / "trace"
    live = library.Sequential(
        [layers.Input((4,)), layers.Lambda(lambda x, trace=str(trace): (open(trace, "w"), x)[1], name="hidden")]
    )
    live.save(tmp_path / f"a{suffix}")
    trace.unlink()
    with pytest.raises(BadInput, match="has the Lambda layer 'hidden', and code of a file is not run"):
        attribution.load_model(tmp_path / f"a{suffix}")
    assert not trace.exists()


def changed(path, change, compression=zipfile.ZIP_STORED):
    """Change the parts of a .keras file."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def own_loss(truth, found):
    return keras.ops.mean(truth - found)


def test_how_a_model_was_trained_does_not_matter(tmp_path):
    live = network()
    live.compile(loss=own_loss, metrics=[keras.losses.mean_squared_error])
    live.save(tmp_path / "a.keras")
    inner = network()
    inner.compile("adam", "mse")
    keras.Sequential([keras.layers.Input((4,)), inner]).save(tmp_path / "b.keras")
    for name in ("a.keras", "b.keras"):
        scores = attribution.load_model(tmp_path / name).scores(INPUTS)
        np.testing.assert_allclose(scores, live.predict(INPUTS, verbose=0), rtol=1e-6)


def test_the_fingerprint_is_that_of_the_file(tmp_path, monkeypatch):
    network().save(tmp_path / "a.keras")
    found = []
    for name in ("first", "second"):
        monkeypatch.setenv("ATTRIBUTION_BENCHMARKS_CACHE", str(tmp_path / name))
        found.append(attribution.load_model(tmp_path / "a.keras").fingerprint)
    assert found == [hashlib.sha256((tmp_path / "a.keras").read_bytes()).hexdigest()] * 2


def test_a_file_that_changes_meanwhile_is_not_stored(tmp_path, monkeypatch):
    network().save(tmp_path / "a.keras")
    monkeypatch.setattr(keras_files, "_digest", lambda path: hashlib.sha256(str(path).encode()).hexdigest())
    with pytest.raises(BadInput, match="changed while it was read; run the command again"):
        attribution.load_model(tmp_path / "a.keras")
    assert not list((tmp_path / "cache").rglob("saved_model.pb"))


def _array(file):
    found = []
    file.visititems(lambda name, one: found.append(name) if isinstance(one, h5py.Dataset) else None)
    shape = file[found[0]].shape
    del file[found[0]]
    return found[0], shape


def _external(file):
    name, shape = _array(file)
    file.create_dataset(name, shape, "f4", external=[("/etc/hostname", 0, h5py.h5f.UNLIMITED)])


def _virtual(file):
    name, shape = _array(file)
    file.create_virtual_dataset(name, h5py.VirtualLayout(shape, "f4"))


def _linked(file):
    file[_array(file)[0]] = h5py.ExternalLink("other.h5", "/")


def _larger_than_stored(file):
    file.create_dataset(_array(file)[0], (1 << 40,), "f4", chunks=(1 << 20,), compression="gzip")


@pytest.mark.parametrize("library", [keras, tf_keras])
@pytest.mark.parametrize(
    "change, words",
    [
        (_external, "is stored in another file"),
        (_virtual, "is stored in another file"),
        (_linked, "is a link"),
        (_larger_than_stored, "declares 4,398,046,511,104 bytes and has 0"),
    ],
)
def test_weights_are_read_from_the_file_alone_and_are_no_larger_than_it(change, words, library, tmp_path):
    network(library).save(tmp_path / "a.h5")
    network(library).save(tmp_path / "a.keras")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        change(file)
    with zipfile.ZipFile(tmp_path / "a.keras") as archive:
        weights = io.BytesIO(archive.read("model.weights.h5"))
    with h5py.File(weights, "r+") as file:
        change(file)
    changed(tmp_path / "a.keras", lambda parts: parts.update({"model.weights.h5": weights.getvalue()}))
    for name in ("a.h5", "a.keras"):
        with pytest.raises(BadInput, match=words):
            attribution.load_model(tmp_path / name)


@pytest.mark.parametrize("library", [keras, tf_keras])
@pytest.mark.parametrize(
    "old, new, words",
    [
        ('"units": 4', '"units": 1000000000', "layers with more weights than it holds"),
        ('"vocabulary": ["b"]', '"vocabulary": "/etc/hostname"', "names a file as a vocabulary"),
        ('["a", 0', '["c", 0', "layers that wait for each other|has loops"),
        ('["a", 0', '["a", 9', "layers that wait for each other|has loops"),
    ],
)
def test_what_a_file_describes_is_checked_before_it_is_built(old, new, words, library, tmp_path):
    layers = library.layers
    inputs, words_in = layers.Input((4,)), layers.Input((1,), dtype="string")
    found = layers.Dense(4, name="c")(layers.Dense(4, name="b")(layers.Dense(4, name="a")(inputs)))
    looked_up = layers.StringLookup(vocabulary=["b"], output_mode="multi_hot")(words_in)
    library.Model([inputs, words_in], layers.Concatenate()([found, looked_up])).save(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        assert old in file.attrs["model_config"]
        file.attrs["model_config"] = file.attrs["model_config"].replace(old, new)
    with pytest.raises(BadInput, match=words):
        attribution.load_model(tmp_path / "a.h5")


@pytest.mark.parametrize(
    "old, new, words",
    [
        ('"SimpleRNNCell"', '"ResidualWrapper"', "custom class 'ResidualWrapper'"),
        ('"SimpleRNNCell"', '"layers.SimpleRNNCell"', "custom class 'layers.SimpleRNNCell'"),
        ('"activation": "tanh"', '"activation": "tanh", "activation_type": "lambda"', "code of a file is not run"),
    ],
)
def test_only_classes_of_keras_without_code_are_built(old, new, words, tmp_path):
    layers = tf_keras.layers
    tf_keras.Sequential([layers.Input((3, 2)), layers.RNN(layers.SimpleRNNCell(2))]).save(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        assert old in file.attrs["model_config"]
        file.attrs["model_config"] = file.attrs["model_config"].replace(old, new)
    with pytest.raises(BadInput, match=words):
        attribution.load_model(tmp_path / "a.h5")


def test_no_module_is_imported_for_a_file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "stranger.py").write_text("raise SystemExit('imported')")
    network().save(tmp_path / "a.keras")

    def another_module(parts):
        config = json.loads(parts["config.json"])
        config["config"]["layers"][1] |= {"module": "stranger", "class_name": "Dense", "registered_name": "x>Dense"}
        parts["config.json"] = json.dumps(config)

    changed(tmp_path / "a.keras", another_module)
    with pytest.raises(BadInput, match="has the custom class 'Dense', whose module is not imported"):
        attribution.load_model(tmp_path / "a.keras")


def test_a_file_of_a_newer_keras_names_both_versions(tmp_path):
    network().save(tmp_path / "a.keras")

    def newer(parts):
        config = json.loads(parts["config.json"])
        config["config"]["layers"][1]["config"]["later"] = 1
        parts["config.json"], parts["metadata.json"] = json.dumps(config), json.dumps({"keras_version": "3.99.0"})

    changed(tmp_path / "a.keras", newer)
    with pytest.raises(BadInput, match=rf"Keras 3\.99\.0 saved it, and {keras.__version__} is installed"):
        attribution.load_model(tmp_path / "a.keras")


def _weights(path):
    network().save_weights(path)


def _other_hdf5(path):
    with h5py.File(path, "w") as file:
        file["x"] = [1]


def _other_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.txt", "x")


def _cut_off(path):
    network().save(path)
    path.write_bytes(path.read_bytes()[:-300])


def _without_weights(path):
    network().save(path)
    changed(path, lambda parts: parts.update({"model.weights.h5": b""}))


def _list_as_metadata(path):
    network().save(path)
    changed(path, lambda parts: parts.update({"metadata.json": b"[]"}))


def _compressed(path):
    network().save(path)
    changed(path, lambda parts: None, zipfile.ZIP_DEFLATED)


def _not_json(path):
    network().save(path)
    changed(path, lambda parts: parts.update({"config.json": b"["}))


@pytest.mark.parametrize(
    "name, write, words",
    [
        ("a.weights.h5", _weights, "it has weights and no layers"),
        ("a.h5", _other_hdf5, "it has no model_config, so Keras did not save it"),
        ("a.h5", _cut_off, "truncated file"),
        ("a.h5", lambda path: path.write_bytes(b""), "not a readable Keras model"),
        ("a.keras", _other_zip, "it has no config.json, so Keras did not save it"),
        ("a.keras", _cut_off, "not a readable Keras model: File is not a zip file"),
        ("a.keras", _without_weights, "not a readable Keras model"),
        ("a.keras", _not_json, "not a readable Keras model"),
        ("a.keras", _list_as_metadata, "its configuration is damaged"),
        ("a.keras", _compressed, "a part is compressed, which Keras does not do"),
        ("a.keras", lambda path: path.write_bytes(pickle.dumps(1)), "not a readable Keras model"),
    ],
)
def test_damaged_and_foreign_files_are_one_line(name, write, words, tmp_path):
    write(tmp_path / name)
    with pytest.raises(BadInput, match=words):
        attribution.load_model(tmp_path / name)
    assert not list((tmp_path / "cache").rglob("saved_model.pb"))


def test_directories_and_missing_files_are_no_keras_files(tmp_path):
    (tmp_path / "a.keras").mkdir()
    assert not is_keras_file(tmp_path / "a.keras") and not is_keras_file(tmp_path / "b.h5")
