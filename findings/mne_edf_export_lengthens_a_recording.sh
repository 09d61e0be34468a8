#!/usr/bin/env bash
# MNE-Python: a recording written as EDF comes back longer, its end held at the last value.
#
# Guess: a recording of 10.5 s, 1050 samples at 100 Hz, comes back as 1050 samples. Written before the run.
# Seen with MNE 1.13.2 and edfio 0.4.18: 1050 samples at 100 Hz come back as 1100, the last 50 equal to the 1050th, with
# one annotation BAD_ACQ_SKIP. A network that reads the array, and not the annotations, sees a flat line that was never
# there.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mne==1.13.2 edfio==0.4.18 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import os
import tempfile

import edfio
import mne
import numpy as np

mne.set_log_level("ERROR")
print("MNE", mne.__version__, "edfio", edfio.__version__)
for length, expected in ((1000, 1000), (1050, 1100), (997, 1000)):
    signal = np.random.RandomState(0).randn(1, length) * 1e-5
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.edf")
        mne.io.RawArray(signal, mne.create_info(["a"], 100.0, "eeg")).export(path)
        read = mne.io.read_raw_edf(path, preload=True)
    values, notes = read.get_data()[0], [str(one["description"]) for one in read.annotations]
    print(length, "samples come back as", read.n_times, notes)
    assert read.n_times == expected and notes == ["BAD_ACQ_SKIP"] * (expected != length)
    np.testing.assert_allclose(values[:length], signal[0], atol=1e-8)
    np.testing.assert_allclose(values[length:], signal[0, -1], atol=1e-8)
PYTHON
