"""The registry: every attribution method by name, with its defaults and fact sheet.

A new method is one function and one entry here; every command line and docs/methods.md read this list. The
fact sheets follow the dimensions of Sokol and Flach (2020). This module imports no TensorFlow.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType

from attribution import cam, gradients, lrp, modified_relu, perturbation
from attribution.passes import Needs
from command_line import BadInput, listed


@dataclasses.dataclass(frozen=True)
class FactSheet:
    """What a user should know of a method before choosing it.

    Attributes
    ----------
    citation
        Where it was published.
    needs
        What it requires of the model.
    cost
        Passes per input: F is a forward pass, G a forward and backward pass (about 2.6 F).
    randomness
        What is drawn, and from which seed.
    weaknesses
        Known limits.
    """

    citation: str
    needs: str
    cost: str
    randomness: str
    weaknesses: str


@dataclasses.dataclass(frozen=True)
class Method:
    """An attribution method.

    Attributes
    ----------
    name
        As typed on a command line.
    title
        As printed in tables.
    function
        ``function(passes, **parameters)``; see ``attribution.passes``.
    facts
        Fact sheet; ``None`` for a user's own method.
    """

    name: str
    title: str
    function: Callable
    facts: FactSheet | None = None

    @property
    def defaults(self) -> Mapping:
        """Parameters and their default values, read from the function itself."""
        parameters = list(inspect.signature(self.function).parameters.values())[1:]
        return MappingProxyType(
            {
                parameter.name: parameter.default
                for parameter in parameters
                if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            }
        )

    @property
    def is_random(self) -> bool:
        """Whether the seed changes the maps."""
        return self.facts is not None and not self.facts.randomness.startswith("None")

    def needs(self, parameters: Mapping) -> Needs:
        """Return what the method will ask of its passes with these parameters."""
        if self.function in (gradients.gradient, gradients.gradient_x_input):
            return Needs(input_gradient=True)
        if self.function in _CAMS:
            return Needs(layers=frozenset([parameters["layer"]]))
        return Needs(squares=self.function is gradients.vargrad or bool(parameters.get("squared")))

    def parameters(self, overrides: Mapping) -> dict:
        """Return the defaults with overrides applied.

        Raises
        ------
        BadInput
            If an override names no parameter, or a parameter without default is missing.
        """
        for name in overrides:
            if name not in self.defaults:
                known = f"its parameters are {listed(self.defaults)}" if self.defaults else "it has none"
                raise BadInput(f"method '{self.name}' has no parameter '{name}'; {known}")
        chosen = {**self.defaults, **overrides}
        missing = [name for name, value in chosen.items() if value is inspect.Parameter.empty]
        if missing:
            raise BadInput(f"method '{self.name}' needs a value for {listed(missing)}")
        return chosen


_CAMS = (cam.grad_cam, cam.grad_cam_plus_plus, cam.xgrad_cam, cam.score_cam, cam.sise, cam.guided_grad_cam)
_SEED_PER_INPUT = "drawn from the run's seed and each input's key"
_NO_RANDOMNESS = "None: same input, same map."
_ANY = "Any model differentiable in its input."
_RELU = "All activations between input and score are Relu operations; others are refused by name."
_RULES = "Logits, and operations that have a relevance rule; others are refused by name."
_LRP = "Bach, Binder, Montavon, Klauschen, Müller and Samek, On Pixel-Wise Explanations, PLOS ONE 2015"
_CONVOLUTIONAL = "A layer that keeps positions; by default the last convolution's activation."

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            Method(
                "gradient",
                "Vanilla Gradient",
                gradients.gradient,
                FactSheet(
                    citation="Simonyan, Vedaldi and Zisserman, Deep Inside Convolutional Networks, ICLR workshop 2014",
                    needs=_ANY,
                    cost="1 G",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="Noisy; blind where the score is saturated; says what would change the score, not "
                    "what made it.",
                ),
            ),
            Method(
                "gradient_x_input",
                "Gradient x Input",
                gradients.gradient_x_input,
                FactSheet(
                    citation="Shrikumar, Greenside, Shcherbina and Kundaje, Not Just a Black Box, 2016",
                    needs=_ANY,
                    cost="1 G",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="Zero wherever the input is zero, whatever the model makes of it; depends on how "
                    "inputs were centred.",
                ),
            ),
            Method(
                "integrated_gradients",
                "Integrated Gradients",
                gradients.integrated_gradients,
                FactSheet(
                    citation="Sundararajan, Taly and Yan, Axiomatic Attribution for Deep Networks, ICML 2017",
                    needs=_ANY + " A baseline that stands for the absence of signal.",
                    cost="points G + 1 F",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="Depends on the baseline; parts of the input that equal it get nothing; few points "
                    "leave a gap between the map's sum and f(x) - f(baseline).",
                ),
            ),
            Method(
                "smoothgrad",
                "SmoothGrad",
                gradients.smoothgrad,
                FactSheet(
                    citation="Smilkov, Thorat, Kim, Viégas and Wattenberg, SmoothGrad, 2017; squared: Hooker, Erhan, "
                    "Kindermans and Kim, A Benchmark for Interpretability Methods, NeurIPS 2019",
                    needs=_ANY,
                    cost="samples G + 1 F",
                    randomness=f"Gaussian noise, {_SEED_PER_INPUT}.",
                    weaknesses="Explains the model around the input rather than at it; the noise level decides "
                    "what is seen.",
                ),
            ),
            Method(
                "vargrad",
                "VarGrad",
                gradients.vargrad,
                FactSheet(
                    citation="Adebayo, Gilmer, Goodfellow and Kim, Local Explanation Methods, ICLR workshop 2018",
                    needs=_ANY,
                    cost="samples G + 1 F; none beside SmoothGrad with the same noise",
                    randomness=f"Gaussian noise, {_SEED_PER_INPUT}.",
                    weaknesses="Has no sign; zero for a model that is linear around the input.",
                ),
            ),
            Method(
                "guided_backprop",
                "Guided Backprop",
                modified_relu.guided_backprop,
                FactSheet(
                    citation="Springenberg, Dosovitskiy, Brox and Riedmiller, Striving for Simplicity, ICLR workshop "
                    "2015",
                    needs=_RELU,
                    cost="1 G",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="Close to a reconstruction of the input: it changes little with the class or with the "
                    "upper layers' weights (Adebayo et al. 2018; Nie et al. 2018).",
                ),
            ),
            Method(
                "deconvnet",
                "Deconvnet",
                modified_relu.deconvnet,
                FactSheet(
                    citation="Zeiler and Fergus, Visualizing and Understanding Convolutional Networks, ECCV 2014",
                    needs=_RELU,
                    cost="1 G",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="Ignores which ReLUs were active, so that without max-pooling it hardly depends on "
                    "the input.",
                ),
            ),
            Method(
                "lrp_epsilon",
                "LRP-ε",
                lrp.lrp_epsilon,
                FactSheet(
                    citation=_LRP,
                    needs=_RULES,
                    cost="about 2 G",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="On ReLU networks no more than input times gradient.",
                ),
            ),
            Method(
                "lrp_epsilon_plus",
                "LRP-ε+",
                lrp.lrp_epsilon_plus,
                FactSheet(
                    citation="Montavon, Binder, Lapuschkin, Samek and Müller, Layer-Wise Relevance Propagation: An "
                    "Overview, 2019",
                    needs=_RULES,
                    cost="about 2 G",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="Negative evidence is lost in the convolutions.",
                ),
            ),
            Method(
                "lrp_alpha1beta0",
                "LRP-α1β0",
                lrp.lrp_alpha1beta0,
                FactSheet(
                    citation=_LRP + "; z+: Montavon, Lapuschkin, Binder, Samek and Müller, Deep Taylor "
                    "Decomposition, Pattern Recognition 2017",
                    needs=_RULES,
                    cost="about 2 G",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="Sees positive evidence alone; in deep networks the map hardly depends on the class "
                    "(Sixt, Granz and Landgraf 2020).",
                ),
            ),
            Method(
                "lrp_clevr_xai",
                "LRP (CLEVR-XAI)",
                lrp.lrp_clevr_xai,
                FactSheet(
                    citation="Arras, Osman and Samek, CLEVR-XAI, Information Fusion 2022",
                    needs=_RULES + " Inputs in a known range.",
                    cost="about 2 G",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="As LRP-α1β0; the range of the inputs has to be given rightly.",
                ),
            ),
            Method(
                "excitation_backprop",
                "Excitation Backprop",
                lrp.excitation_backprop,
                FactSheet(
                    citation="Zhang, Bargal, Lin, Brandt, Shen and Sclaroff, Top-Down Neural Attention by Excitation "
                    "Backprop, IJCV 2018",
                    needs=_RULES + " Made for non-negative activations.",
                    cost="about 2 G",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="Sees positive evidence alone; hardly depends on the class in deep networks.",
                ),
            ),
            Method(
                "grad_cam",
                "Grad-CAM",
                cam.grad_cam,
                FactSheet(
                    citation="Selvaraju, Cogswell, Das, Vedantam, Parikh and Batra, Grad-CAM, ICCV 2017",
                    needs=_CONVOLUTIONAL,
                    cost="1 F + the backward pass down to the layer",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="As coarse as the layer; all zero where every weighted sum is negative; averaging "
                    "the gradient over positions mixes several objects.",
                ),
            ),
            Method(
                "guided_grad_cam",
                "Guided Grad-CAM",
                cam.guided_grad_cam,
                FactSheet(
                    citation="Selvaraju, Cogswell, Das, Vedantam, Parikh and Batra, Grad-CAM, ICCV 2017",
                    needs=_CONVOLUTIONAL + " " + _RELU,
                    cost="1 G + 1 F + the backward pass down to the layer",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="Fine detail from Guided Backprop, which is not specific to the class; where it is from "
                    "Grad-CAM.",
                ),
            ),
            Method(
                "grad_cam_plus_plus",
                "Grad-CAM++",
                cam.grad_cam_plus_plus,
                FactSheet(
                    citation="Chattopadhay, Sarkar, Howlader and Balasubramanian, Grad-CAM++, WACV 2018",
                    needs=_CONVOLUTIONAL,
                    cost="1 F + the backward pass down to the layer",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="As coarse as the layer; its closed form assumes an exponential of the score; close "
                    "to a plain mean of positive activations (Lerma and Lucas 2022).",
                ),
            ),
            Method(
                "xgrad_cam",
                "XGrad-CAM",
                cam.xgrad_cam,
                FactSheet(
                    citation="Fu, Hu, Dong, Guo, Gao and Li, Axiom-based Grad-CAM, BMVC 2020",
                    needs=_CONVOLUTIONAL,
                    cost="1 F + the backward pass down to the layer",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="As coarse as the layer; a channel whose sum is near zero gets a huge weight.",
                ),
            ),
            Method(
                "score_cam",
                "Score-CAM",
                cam.score_cam,
                FactSheet(
                    citation="Wang, Wang, Du, Yang, Zhang, Ding, Mardziel and Hu, Score-CAM, CVPR workshops 2020",
                    needs=_CONVOLUTIONAL,
                    cost="live channels F + 1 G",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="Slow for wide layers; with probabilities the softmax over channels is nearly flat; "
                    "masked inputs are unlike any the model was trained on.",
                ),
            ),
            Method(
                "sise",
                "SISE",
                cam.sise,
                FactSheet(
                    citation="Sattarzadeh, Sudhakar, Lem, Mehryar, Plataniotis, Jang, Kim, Jeong, Lee and Bae, "
                    "Explaining CNNs through Attribution-Based Input Sampling, AAAI 2021",
                    needs=_CONVOLUTIONAL,
                    cost="channels with a positive gradient F + 1 G",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="Here on one layer, without the fusion of several blocks; masked inputs are unlike "
                    "any the model was trained on.",
                ),
            ),
            Method(
                "rise",
                "RISE",
                perturbation.rise,
                FactSheet(
                    citation="Petsiuk, Das and Saenko, RISE, BMVC 2018",
                    needs="Scores only; made for probabilities.",
                    cost="masks F + 1 F",
                    randomness="Masks, drawn from the run's seed, the same for every input.",
                    weaknesses="Slow; noisy below some 1,000 masks; cannot be finer than its cells; with logits "
                    "that may be negative the map loses its meaning.",
                ),
            ),
            Method(
                "occlusion",
                "Occlusion",
                perturbation.occlusion,
                FactSheet(
                    citation="Zeiler and Fergus, Visualizing and Understanding Convolutional Networks, ECCV 2014",
                    needs="Scores only.",
                    cost="patches F + 1 F",
                    randomness=_NO_RANDOMNESS,
                    weaknesses="Depends on the patch and on what covers it; misses evidence that is present twice.",
                ),
            ),
            Method(
                "random",
                "Random map",
                perturbation.random,
                FactSheet(
                    citation="A control of this project",
                    needs="Nothing.",
                    cost="none",
                    randomness=f"Everything, {_SEED_PER_INPUT}.",
                    weaknesses="Explains nothing; a method that does not beat it explains nothing either.",
                ),
            ),
        )
    }
)


def resolve_method(name: str) -> Method:
    """Return a method of the registry, or a user's own.

    Parameters
    ----------
    name
        A name of ``METHODS``, ``module:function``, or ``path/to/file.py:function``.

    Raises
    ------
    BadInput
        If there is no such method; the message gives the nearest names.
    """
    if name in METHODS:
        return METHODS[name]
    if ":" in name:
        return _own_method(name)
    near = difflib.get_close_matches(name, METHODS, n=3, cutoff=0.4)
    meant = f"did you mean {listed(near)}?" if near else f"the methods are {listed(METHODS)}"
    raise BadInput(f"no method '{name}'; {meant} A method of your own is written module:function")


def _own_method(name: str) -> Method:
    """Import ``module:function`` or ``file.py:function``."""
    module_name, _, function_name = name.rpartition(":")
    try:
        if module_name.endswith(".py"):
            specification = importlib.util.spec_from_file_location("own_method", module_name)
            module = importlib.util.module_from_spec(specification)
            specification.loader.exec_module(module)
        else:
            if os.getcwd() not in sys.path:
                sys.path.insert(0, os.getcwd())
            module = importlib.import_module(module_name)
    except (ImportError, OSError) as error:
        raise BadInput(f"method '{name}': cannot import '{module_name}' ({error})") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise BadInput(f"method '{name}': '{module_name}' has no function '{function_name}'")
    return Method(name=name, title=function_name.replace("_", " "), function=function)


def fact_sheets() -> str:
    """Return the fact sheets of all methods as a Markdown page (docs/methods.md)."""
    lines = [
        "# Attribution methods",
        "",
        "Generated from `attribution/methods.py` by `python scripts/document_methods.py`; do not edit.",
        "",
        "F is a forward pass of the model, G a forward and backward pass down to the input (about 2.6 F). Every method",
        'explains the score the model was loaded for (`load_model(..., score="logits" or "probabilities")`) of the',
        "target class, by default the predicted one.",
        "",
        "| name | method | cost |",
        "|---|---|---|",
        *(f"| [`{name}`](#{name}) | {method.title} | {method.facts.cost} |" for name, method in METHODS.items()),
    ]
    for name, method in METHODS.items():
        defaults = ", ".join(f"`{key}={value!r}`" for key, value in method.defaults.items()) or "none"
        lines += [
            "",
            f"## {name}",
            "",
            inspect.getdoc(method.function).split("\n\n")[0].replace("\n", " "),
            "",
            f"- **Parameters:** {defaults}",
            f"- **Needs:** {method.facts.needs}",
            f"- **Cost per input:** {method.facts.cost}",
            f"- **Randomness:** {method.facts.randomness}",
            f"- **Known weaknesses:** {method.facts.weaknesses}",
            f"- **Source:** {method.facts.citation}",
        ]
    return "\n".join(lines) + "\n"
