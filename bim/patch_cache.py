"""Which patches the input independence rate of a run may use: those made for its very model."""

from __future__ import annotations

import os

from attribution.errors import BadInput
from attribution.file_io.files import locked_directory
from bim.evaluate import PATCH_SET, BimRun
from bim.measure import load_classifier
from bim.served import local_twin


def patches_for(run: BimRun, made_here: bool):
    """Return the record of the delta patches; None where there is none, as in the authors' data.

    Parameters
    ----------
    run
        The models and sets.
    made_here
        Whether to make patches when there are none for this model; of a served model, if its file is in
        ``models_dir``.

    Raises
    ------
    BadInput
        If the patches were made for another model than the one to be scored and are not made here.
    """
    from bim import delta_patch

    directory = os.path.join(run.data_dir, PATCH_SET)
    model = run.model("scene_only")
    path = str(model.path)
    if run.client is not None:  # patches are made with gradients of all logits, hence from the file
        twin = local_twin(run.flags.models_dir, "scene_only", model)
        path = twin or f"DIR, the file behind {path}"
        made_here = made_here and twin is not None
    record = delta_patch.read_record(directory)
    hint = f"scripts/construct_delta_patch.py --data_dir={run.data_dir} --model={path}"
    if not made_here and not os.path.isdir(directory):
        raise BadInput(f"no patches in {directory}; make them with {hint}")
    if made_here and (record is None or record.model != model.fingerprint):
        with locked_directory(run.data_dir, "patches"):
            record = delta_patch.read_record(directory)  # another process may have made them meanwhile
            if record is not None and record.model == model.fingerprint:
                return record
            maker = model if run.client is None else load_classifier(run.flags.models_dir, "scene_only")
            return delta_patch.construct(run.data_dir, maker, progress=True)
    if record is not None and record.model != model.fingerprint:
        raise BadInput(
            f"the patches in {directory} were made for another model, to this one they may mean something; make its "
            f"own with {hint}"
        )
    return record
