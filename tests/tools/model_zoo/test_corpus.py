"""A folder of files is examined one by one, and each has its status and its cause."""

import dataclasses
import json

import keras
import tensorflow as tf

import attribution
from tools.model_zoo import corpus, measure


def test_each_file_has_its_status(tmp_path, capsys):
    files = tmp_path / "files"
    keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]).export(files / "dense", verbose=False)
    module = tf.Module()
    module.function = tf.function(lambda x: {"scores": x + tf.random.normal(())}, [tf.TensorSpec((None, 2))])
    tf.saved_model.save(module, str(files / "random"), signatures=module.function)
    (files / "damaged").mkdir()
    (files / "damaged" / "saved_model.pb").write_bytes(b"\xff")
    corpus.main([str(files), f"--output={tmp_path / 'corpus.json'}"])
    found = json.loads((tmp_path / "corpus.json").read_text())
    assert {name: record["status"] for name, record in found.items()} == {
        "dense": "loads", "random": "refused", "damaged": "refused"
    }  # fmt: skip
    assert "gives other scores at every call" in found["random"]["cause"]
    methods = {name: cell["status"] for name, cell in found["dense"]["methods"].items()}
    assert methods["gradient"] == methods["smoothgrad"] == "exact" and methods["grad_cam"] == "refused"
    assert "    1  loads     as it is" in capsys.readouterr().out


def test_a_method_that_misses_its_sum_is_wrong(tmp_path, monkeypatch):
    keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]).export(tmp_path / "dense", verbose=False)
    real = attribution.METHODS["deeplift"]
    off = dataclasses.replace(real, function=lambda queries: 1.001 * real.function(queries))
    monkeypatch.setattr("attribution.methods.registry.METHODS", {**attribution.METHODS, "deeplift": off})
    monkeypatch.setattr(measure, "METHODS", ("gradient", "deeplift"))
    record = corpus.examine(tmp_path / "dense")
    assert (record["status"], record["cause"]) == ("wrong", "deeplift: "), record
    assert record["methods"]["gradient"]["status"] == "exact"
