"""Names of the signatures that an export adds to a model; a client looks for them."""

EXPLAIN = "explain_"  # + label of a method: inputs and targets in; map, target and score out
SCORES = "explanation_scores"  # inputs in; scores of all classes out, of the kind that is explained
LAYER = "explanation_layer"  # as EXPLAIN; values and gradients of the layer of class activation maps out
SHEET = "explanation_sheet"  # any numbers in; for each a description in JSON out
SHEET_VERSION = 1
TARGETS = "targets"  # the additional input; -1 is the predicted class
PREDICTED = -1
