"""Score 10,000 pooled maps of CLEVR-XAI at once and in a loop over maps; print CPU times and their ratio.

    python tools/performance/scoring.py
    python tools/performance/scoring.py --num_maps=2000

The loop is what a script does that follows the definitions: for each map a sum and a stable argsort, reversed. CPU time
of one thread, both on the same maps in turns, block by block. The maps of the first block are drawn smooth with a few
high peaks, as explanations are; each further block holds them shifted.
"""

import pathlib
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from absl import flags

from attribution import cli
from clevr_xai.metrics import relevance_mass_accuracy, relevance_rank_accuracy

SIZE, BLOCK = 128, 500
FLAGS = flags.FlagValues()
flags.DEFINE_integer("num_maps", 10_000, "maps to score", lower_bound=BLOCK, flag_values=FLAGS)


def draw(generator):
    """Return a block of pooled maps, (N, 128, 128) float64, and masks of 1 to 10 % of the image."""
    coarse = generator.normal(size=(BLOCK, 16, 16)).repeat(8, axis=1).repeat(8, axis=2)
    maps = np.square(np.exp(coarse) * generator.normal(size=(BLOCK, SIZE, SIZE)))
    rows, columns = np.mgrid[:SIZE, :SIZE]
    centre = generator.uniform(20, SIZE - 20, (BLOCK, 2, 1, 1))
    radius = generator.uniform(7, 23, (BLOCK, 1, 1))
    return maps, np.hypot(rows - centre[:, 0], columns - centre[:, 1]) < radius


def at_once(maps, masks):
    return np.stack([relevance_mass_accuracy(maps, masks), relevance_rank_accuracy(maps, masks)], axis=1)


def in_a_loop(maps, masks):
    scores = []
    for pooled, mask in zip(maps, masks, strict=True):
        order = np.argsort(pooled.ravel(), kind="stable")[::-1]
        inside = mask.ravel()[order[: mask.sum()]]
        scores.append((pooled[mask].sum() / pooled.sum(), inside.sum() / mask.sum()))
    return np.array(scores)


def main(flag_values):
    maps, masks = draw(np.random.default_rng(0))
    spent = {at_once: 0.0, in_a_loop: 0.0}
    blocks = -(-flag_values.num_maps // BLOCK)
    for number in range(blocks):
        shifted = np.roll(maps, 17 * number, axis=2)
        found = {}
        for way in spent:
            started = time.process_time()
            found[way] = way(shifted, masks)
            spent[way] += time.process_time() - started
        np.testing.assert_allclose(found[at_once], found[in_a_loop], rtol=1e-12)
    count = blocks * BLOCK
    for title, way in (("at once", at_once), ("loop over maps", in_a_loop)):
        print(f"{title:15} {spent[way]:7.2f} CPU seconds for {count:,} maps, {1e6 * spent[way] / count:7.1f} us a map")
    print(f"ratio           {spent[in_a_loop] / spent[at_once]:7.1f}")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
