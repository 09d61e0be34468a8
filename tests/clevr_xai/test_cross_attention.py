import numpy as np
import pytest

from attribution_benchmarks.core.bundled_models import given_or_bundled
from clevr_xai.data import Dataset
from clevr_xai.definition import ATTENTION
from clevr_xai.network import Answering

TASK, *_ = ATTENTION.report_tasks(False, 0)


@pytest.mark.parametrize("model", [one.model for one in (TASK.settings, *TASK.networks)])
def test_the_networks_of_the_repository_answer_the_simple_questions(model):
    path = given_or_bundled(model)
    network, data = Answering(path), Dataset("simple")
    right = []
    for batch in data.batches(99, np.arange(len(data.questions))):
        logits = network.model.scores(network.inputs(batch.images, batch.questions), 99)
        right += list(logits.argmax(axis=1) == network.targets(batch.answers))
    assert np.mean(right) >= 0.95 and len(right) == 792
    assert "architecture cross_attention" in (path / "MODEL_CARD.md").read_text("utf-8")
    assert sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) < 3e6
