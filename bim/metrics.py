"""Score attribution methods with BIM: MCS, IDR, IIR and relative MCS.

    python -m bim.metrics --metrics=MCS --num_imgs=10
    python -m bim.metrics --metrics=MCS,IDR,IIR,RMCS --num_imgs=all --output=bim.json
    python -m bim.metrics --metrics=MCS --models=obj=my/object_model,scene=my/scene_model
    python -m bim.metrics --metrics=MCS --server=grpc://localhost:8500

The third scores models of your own: SavedModels that take square RGB images minus the channel means, of any size,
and tell the ten objects or the ten scenes in the order of bim/layout.py. The last asks models behind TensorFlow
Serving, with the same scores as from their files: whatever was exported with them (python -m attribution.export) or
can be made of exported gradients, and RISE, occlusion and others that need scores alone, of any served model.

The embedded sets are drawn objects on drawn scenes. An image is drawn when it is first read; IIR makes its patches.
Scores are kept in --scores_dir, so another run continues where one ended, and computes again what a changed model,
image, parameter or seed makes stale.

MCS (model contrast score): how much more a model of objects attributes to the object than a model of scenes.
IDR (input dependence rate): how often the scene model attributes less to the object than to what it covers.
IIR (input independence rate): how often a patch that means nothing to the model changes nothing.
RMCS (relative MCS): MCS of a model that saw dogs in i of 10 scenes against one that saw them in all.

Cost: ten images take 26 CPU seconds for MCS at the first run, two of them for the data.
"""

from __future__ import annotations

from attribution import cli
from attribution_benchmarks.cli.benchmark_command import Command
from bim.definition import BENCHMARK

COMMAND = Command(BENCHMARK)
FLAGS, main = COMMAND.flags, COMMAND.main
FLAGS["scores_dir"].help += "; 'scores' in the directory of the sets when empty"

if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
