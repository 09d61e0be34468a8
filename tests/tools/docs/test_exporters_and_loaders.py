"""The table of files and loaders is what docs/library_facts.json holds, and its network is computed as NumPy does."""

import json

import numpy as np

from tools.docs import exporters_and_loaders as libraries


def test_the_page_has_the_stored_table():
    stored = json.loads(libraries.STORED.read_text("utf-8"))
    assert stored["versions"] == libraries.PACKAGES
    assert libraries.table(stored) in libraries.PAGE.read_text("utf-8")


def test_a_cell_is_a_number_in_short_or_the_error():
    stored = {"versions": {"a": "1"}, "cells": {"file": {"TensorFlow": "4.9e-08", "OpenVINO": "Error: a|b"}}}
    *_, row = libraries.table(stored).splitlines()
    assert row == "| file | 5e-08 |  |  | Error: a/b |  |  |  |  |"


def test_the_oracle_is_what_keras_computes():
    picture, _ = libraries.parameters()
    np.testing.assert_allclose(libraries.of_keras()(picture)[0], libraries.oracle(), atol=1e-6)
