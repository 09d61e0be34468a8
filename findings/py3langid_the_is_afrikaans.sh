#!/usr/bin/env bash
# py3langid: the word "the" is Afrikaans, and "hello" Breton.
#
# Guess: "hello", "thank you", "the" and "1234" are English, "hola" is Spanish. Written before the run.
# Seen with py3langid 0.4.0: "the" and "1234" are Afrikaans. They have no feature of the model, so that all languages
# have one score, and the first in alphabetical order is given. "hello" is Breton, "hola" Zulu, "Hello, world!" Fula,
# "information" Venetian. "thank you" is English, as a sentence is. With the documented norm_probs=True and
# min_confidence=0.2, the six are undetermined.
# Two readers without tools, asked pointedly, answered English for "the", "and" and "hello".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet py3langid==0.4.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version

import py3langid
from py3langid.langid import MODEL_FILE, LanguageIdentifier

print("py3langid", version("py3langid"))
words = ["the", "1234", "hello", "hola", "Hello, world!", "information", "thank you", "The cat sat on the mat."]
found = {word: py3langid.classify(word)[0] for word in words}
careful = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True, min_confidence=0.2)
abstained = {word: careful.classify(word)[0] for word in words}
scores = {score for _, score in py3langid.rank("the")}
print(found, "with a threshold:", abstained, "scores of the:", scores)
assert [found[word] for word in words[:6]] == ["af", "af", "br", "zu", "fuv", "vec"]
assert found["thank you"] == found["The cat sat on the mat."] == "en"
assert len(scores) == 1 and {abstained[word] for word in words[:6]} == {"und"}
PYTHON
