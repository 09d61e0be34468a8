"""The command of docs/metrics.md, as it stands there."""

import pathlib
import re
import shlex

from attribution import cli
from bim import metrics

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text()


def test_metrics_of_all_benchmarks_have_their_tables(tmp_path, capsys):
    (command,) = re.findall(r"```bash\n(.*)\n```", PAGE)
    program, *arguments = shlex.split(command)[2:]
    assert program == "bim.metrics"
    flags = [program, *arguments, f"--scores_dir={tmp_path / 'scores'}", "--num_imgs=1"]  # the last one counts
    assert cli.execute(metrics.main, metrics.FLAGS, metrics.__doc__, flags) == 0
    printed = capsys.readouterr().out
    assert "ROC AUC; more is better; object model on its set" in printed
    assert "Insertion - deletion; more is better; object model on its set" in printed
    assert re.search(r"^Random map +0\.5\d\d |^Random map +0\.4\d\d ", printed, re.MULTILINE)
