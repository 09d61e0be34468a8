"""The registry: every attribution method by name, and the resolution of names.

A new method is one function and one entry here. Every command line and docs/methods.md read this table. This module
imports no TensorFlow.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attribution.errors import BadInput, listed
from attribution.methods import cam, deeplift, gradients, libraries, lrp, modified_relu, perturbation
from attribution.methods.method import (
    BY_BLUR,
    BY_CHORDS,
    BY_CONSTRUCTION,
    BY_POINTS,
    BY_SAMPLES,
    BY_STEPS,
    DETERMINISTIC,
    EXCITATION,
    SEED_PER_INPUT,
    Method,
    MethodCard,
    SumLaw,
    relevance_law,
)
from attribution.methods.third_party import LIBRARY_METHODS
from attribution.plugins import imported, refuse_file_alone

_DIFFERENTIABLE = "Any model differentiable in its input."
_PATH = f"{_DIFFERENTIABLE} A baseline that represents the absence of signal."
_RECTIFIERS = (
    "All nonlinear operations between input and score are Relu, Relu6, LeakyRelu, PReLU or pooling; others, and "
    "products of two factors that depend on the input, are refused by name. Published for ReLU only; for the others "
    "the activation's slope takes the place of ReLU's in the same formula."
)
_RULES = "Operations that have a relevance rule; others are refused by name. Always explains the logit."
_BACH = "Bach, Binder, Montavon, Klauschen, Müller and Samek, On Pixel-Wise Explanations, PLOS ONE 2015"
_OVERVIEW = "Montavon, Binder, Lapuschkin, Samek and Müller, Layer-Wise Relevance Propagation: An Overview, 2019"
_GRAD_CAM = "Selvaraju, Cogswell, Das, Vedantam, Parikh and Batra, Grad-CAM, ICCV 2017"
_DECONVNET = "Zeiler and Fergus, Visualizing and Understanding Convolutional Networks, ECCV 2014"
_ABSORBED = "biases and other inputs take relevance, and so does ε where values are small"
_ABSORBED_POSITIVE = f"{_ABSORBED}; rules of positive parts lose that of negative sums"
_SELF_ATTENTION = "Self-attention among all tokens, computed by Softmax operations; square patches on a grid."
_LAYER = "A layer that keeps positions; by default the last one before pooling and head."
_TO_THE_LAYER = "1 forward pass, and the backward pass down to the layer"


def _method(
    function: Callable[..., Any],
    title: str,
    family: str,
    *,
    citation: str,
    cost: str,
    weaknesses: str,
    requirements: str = _DIFFERENTIABLE,
    randomness: str = DETERMINISTIC,
    **traits: Any,
) -> Method:
    """Return the entry of a function, which gives the method its name."""
    card = MethodCard(citation, requirements, cost, randomness, weaknesses)
    is_random = randomness is not DETERMINISTIC
    return Method(function.__name__, title, function, card, is_random=is_random, family=family, **traits)


def _lrp(
    function: Callable[..., Any],
    title: str,
    law: SumLaw,
    citation: str,
    weaknesses: str,
    more: str = "",
    gradients: int = 2,
) -> Method:
    """Return the entry of a composite of LRP, which takes about as long as some gradients."""
    return _method(
        function,
        title,
        "relevance",
        citation=citation,
        cost=f"about {gradients} gradients",
        weaknesses=weaknesses,
        requirements=_RULES + more,
        sum_law=law,
    )


def _cam(function: Callable[..., Any], title: str, citation: str, weaknesses: str, cost: str = _TO_THE_LAYER) -> Method:
    """Return the entry of a class activation map."""
    return _method(
        function,
        title,
        "class activation",
        citation=citation,
        cost=cost,
        weaknesses=weaknesses,
        requirements=_LAYER,
        query="layer gradient",
        drops_channels=True,
        needs_positions=True,
    )


_METHODS = [
    _method(
        gradients.gradient,
        "Vanilla Gradient",
        "gradient",
        citation="Simonyan, Vedaldi and Zisserman, Deep Inside Convolutional Networks, ICLR workshop 2014",
        cost="1 gradient",
        weaknesses="Noisy; blind where the score saturates; shows what would change the score, not what produced it.",
        query="input gradient",
    ),
    _method(
        gradients.gradient_x_input,
        "Gradient x Input",
        "path",
        citation="Shrikumar, Greenside, Shcherbina and Kundaje, Not Just a Black Box, 2016",
        cost="1 gradient",
        weaknesses="Zero wherever the input is zero, even if the model uses that zero; depends on how inputs were "
        "centred.",
        query="input gradient",
    ),
    _method(
        gradients.integrated_gradients,
        "Integrated Gradients",
        "path",
        citation="Sundararajan, Taly and Yan, Axiomatic Attribution for Deep Networks, ICML 2017",
        cost="1 gradient per point",
        weaknesses="Depends on the baseline; parts of the input that equal it get nothing; few points leave a gap "
        "between the map's sum and f(x) - f(baseline).",
        requirements=_PATH,
        sum_law=BY_POINTS,
    ),
    _method(
        gradients.smoothgrad,
        "SmoothGrad",
        "gradient",
        citation="Smilkov, Thorat, Kim, Viégas and Wattenberg, SmoothGrad, 2017; squared: Hooker, Erhan, Kindermans "
        "and Kim, A Benchmark for Interpretability Methods, NeurIPS 2019",
        cost="1 gradient per sample, and 1 more to predict the target",
        weaknesses="Explains the model around the input rather than at it; the result depends on the noise level.",
        randomness=f"Gaussian noise, {SEED_PER_INPUT}.",
    ),
    _method(
        gradients.vargrad,
        "VarGrad",
        "gradient",
        citation="Adebayo, Gilmer, Goodfellow and Kim, Local Explanation Methods, ICLR workshop 2018",
        cost="as SmoothGrad; none in addition to SmoothGrad with the same noise",
        weaknesses="Has no sign; zero for a model that is linear around the input.",
        randomness=f"Gaussian noise, {SEED_PER_INPUT}.",
        query="squared gradients",
    ),
    _method(
        gradients.expected_gradients,
        "Expected Gradients",
        "path",
        citation="Erion, Janizek, Sturmfels, Lundberg and Lee, Improving Performance of Deep Learning Models with "
        "Axiomatic Attribution Priors and Expected Gradients, Nature Machine Intelligence 2021",
        cost="1 gradient per sample, and 1 more to predict the target",
        weaknesses="Explains the difference from the references: with the default, zero, it is Integrated Gradients "
        "at random points, and noisier. The sum is correct only in expectation.",
        requirements=f"{_DIFFERENTIABLE} References to compare inputs with, preferably training data.",
        randomness=f"References and points on the paths, {SEED_PER_INPUT}.",
        sum_law=BY_SAMPLES,
    ),
    _method(
        gradients.guided_integrated_gradients,
        "Guided Integrated Gradients",
        "path",
        citation="Kapishnikov, Venugopalan, Avci, Wedin, Terry and Bolukbasi, Guided Integrated Gradients, CVPR 2021",
        cost="1 gradient per step, one after another, and 1 more to predict the target",
        weaknesses="The path depends on the input: where two inputs get different maps, the path may be the cause. "
        "Depends on the baseline as Integrated Gradients do.",
        requirements=_PATH,
        sum_law=BY_STEPS,
    ),
    _method(
        gradients.idgi,
        "IDGI",
        "path",
        citation="Yang, Wang and Bilgic, IDGI: A Framework to Eliminate Explanation Noise from Integrated Gradients, "
        "CVPR 2023",
        cost="points - 1 gradients and 1 forward pass, and 1 more gradient to predict the target",
        weaknesses="The signs of a step's values are all that of the step's change of the score, so that evidence for "
        "and against the class is mixed. Depends on the baseline as Integrated Gradients do.",
        requirements=_PATH,
        sum_law=BY_CONSTRUCTION,
    ),
    _method(
        gradients.blur_ig,
        "Blur IG",
        "path",
        citation="Xu, Venugopalan and Sundararajan, Attribution in Scale and Space, CVPR 2020",
        cost="steps + 1 gradients",
        weaknesses="What a blur leaves in place, such as a uniform color, gets nothing; the strongest blur is dark, "
        "since zeros lie outside the input.",
        requirements=f"{_DIFFERENTIABLE} Signals or images.",
        sum_law=BY_BLUR,
        needs_positions=True,
    ),
    _method(
        gradients.xrai,
        "XRAI",
        "path",
        citation="Kapishnikov, Bolukbasi, Viégas and Terry, XRAI: Better Attributions Through Regions, ICCV 2019",
        cost="2 gradients per point",
        weaknesses="Borders come from the image's segments, whatever the model uses; whole regions share one value. "
        "The scales of its segments are made for photographs.",
        requirements=f"{_DIFFERENTIABLE} Images; needs scikit-image.",
        drops_channels=True,
        needs_positions=True,
    ),
    _method(
        gradients.full_grad,
        "FullGrad",
        "full gradient",
        citation="Srinivas and Fleuret, Full-Gradient Representation for Neural Network Visualization, NeurIPS 2019",
        cost="1 gradient",
        weaknesses="Has no sign; a layer's share does not depend on the size of its term, only on how it is spread; "
        "layers without positions are left out. Made for convolutional networks of ReLUs.",
        requirements="Linear operations, pooling, normalization by constants and activations of one variable; others "
        "are refused by name. Signals or images. Always explains the logit.",
        drops_channels=True,
        needs_positions=True,
    ),
    _method(
        deeplift.deeplift,
        "DeepLIFT (rescale)",
        "relevance",
        citation="Shrikumar, Greenside and Kundaje, Learning Important Features Through Propagating Activation "
        "Differences, ICML 2017; products and maxima: Lundberg and Lee, NeurIPS 2017",
        cost="1 gradient and 1 forward pass",
        weaknesses="Depends on the baseline, and on how the network computes its function: two networks with the same "
        "scores may get different maps.",
        requirements="Linear operations, functions of one variable, products, quotients, maxima and softmax; others "
        "are refused by name. Always explains the logit.",
        sum_law=BY_CHORDS,
    ),
    _method(
        modified_relu.guided_backprop,
        "Guided Backprop",
        "changed ReLU",
        citation="Springenberg, Dosovitskiy, Brox and Riedmiller, Striving for Simplicity, ICLR workshop 2015",
        cost="1 gradient",
        weaknesses="Close to a reconstruction of the input: it changes little with the class or with the upper "
        "layers' weights (Adebayo et al. 2018; Nie et al. 2018).",
        requirements=_RECTIFIERS,
    ),
    _method(
        modified_relu.deconvnet,
        "Deconvnet",
        "changed ReLU",
        citation=_DECONVNET,
        cost="1 gradient",
        weaknesses="Ignores which ReLUs were active, so that without max-pooling it hardly depends on the input.",
        requirements=_RECTIFIERS,
    ),
    _lrp(
        lrp.lrp_epsilon,
        "LRP-ε",
        relevance_law(_ABSORBED),
        _BACH,
        "Is input times gradient on ReLU networks as ε goes to 0. Attention and gates are constants, as in lrp_cp.",
    ),
    _lrp(
        lrp.lrp_epsilon_plus,
        "LRP-ε+",
        relevance_law(_ABSORBED_POSITIVE),
        _OVERVIEW,
        "The convolutions lose negative evidence. Positive biases take relevance: in deep networks with folded "
        "BatchNorm little of the logit may arrive at the input. A residual block's sum is shared among its branches by "
        "value, as in zennit; `sums='joint'` treats it as one layer.",
    ),
    _lrp(
        lrp.lrp_alpha1beta0,
        "LRP-α1β0",
        relevance_law(_ABSORBED_POSITIVE),
        f"{_BACH}; z+: Montavon, Lapuschkin, Binder, Samek and Müller, Deep Taylor Decomposition, Pattern Recognition "
        "2017",
        "Shows positive evidence only; in deep networks the map hardly depends on the class (Sixt, Granz and Landgraf "
        "2020). Made for non-negative activations: sums of negative ones (transformers, recurrent layers) lose "
        "relevance. Biases and residual sums as in lrp_epsilon_plus.",
    ),
    _lrp(
        lrp.lrp_gamma,
        "LRP-γ",
        relevance_law(_ABSORBED),
        f"{_OVERVIEW}; for sums of both signs: Andéol, Kawakami, Wada, Kanamori, Müller and Montavon, Learning Domain "
        "Invariant Representations by Joint Wasserstein Distance Minimization, 2021",
        "γ has no best value. Each layer may amplify relevance, by at most 1 + 2/γ.",
        gradients=3,
    ),
    _lrp(
        lrp.lrp_epsilon_gamma_box,
        "LRP-ε-γ-box",
        relevance_law(_ABSORBED),
        f"{_OVERVIEW}; as a composite: Anders, Neumann, Samek, Müller and Lapuschkin, Zennit, 2021",
        "As LRP-γ; the range of the inputs must be given correctly.",
        " Inputs between `low` and `high`; others are refused.",
        gradients=3,
    ),
    _lrp(
        lrp.lrp_epsilon_plus_flat,
        "LRP-ε+-flat",
        relevance_law(_ABSORBED_POSITIVE),
        f"{_OVERVIEW}; flat: Bach et al. 2015",
        "As LRP-ε+. The first layer spreads relevance evenly over what each unit sees, so that the map is no finer.",
    ),
    _lrp(
        lrp.lrp_cp,
        "CP-LRP",
        relevance_law(_ABSORBED),
        "Ali, Schnake, Eberle, Montavon, Müller and Wolf, XAI for Transformers: Better Explanations through "
        "Conservative Propagation, ICML 2022; gates: Arras, Montavon, Müller and Samek, Explaining Recurrent Neural "
        "Network Predictions in Sentiment Analysis, WASSA 2017",
        "Shows what a transformer takes from the attended positions, not why it attends there; equals input times "
        "gradient on ReLU networks.",
    ),
    _lrp(
        lrp.lrp_attn,
        "AttnLRP",
        relevance_law(f"{_ABSORBED}; softmax keeps part of it"),
        "Achtibat, Hatefi, Dreyer, Jain, Wiegand, Lapuschkin and Samek, AttnLRP: Attention-Aware Layer-Wise Relevance "
        "Propagation for Transformers, ICML 2024. The authors' implementation, LXT, describes the method as patented "
        "and free for personal and scientific use only.",
        "Softmax keeps part of the relevance, so that a map's sum is not the logit; ε alone is noisy on vision "
        "transformers.",
    ),
    _lrp(
        lrp.lrp_clevr_xai,
        "LRP (CLEVR-XAI)",
        relevance_law(_ABSORBED_POSITIVE),
        "Arras, Osman and Samek, CLEVR-XAI, Information Fusion 2022",
        "As LRP-α1β0; the range of the inputs must be given correctly.",
        " Inputs between `low` and `high`; others are refused.",
    ),
    _lrp(
        lrp.excitation_backprop,
        "Excitation Backprop",
        EXCITATION,
        "Zhang, Bargal, Lin, Brandt, Shen and Sclaroff, Top-Down Neural Attention by Excitation Backprop, IJCV 2018",
        "Shows positive evidence only; hardly depends on the class in deep networks.",
        " Made for non-negative activations.",
    ),
    _cam(
        cam.grad_cam,
        "Grad-CAM",
        _GRAD_CAM,
        "As coarse as the layer; all zero where every weighted sum is negative; averaging the gradient over positions "
        "mixes several objects.",
    ),
    _method(
        cam.guided_grad_cam,
        "Guided Grad-CAM",
        "changed ReLU",
        citation=_GRAD_CAM,
        cost=f"1 gradient, {_TO_THE_LAYER}",
        weaknesses="Fine detail comes from Guided Backprop, which is not specific to the class; the location comes "
        "from Grad-CAM.",
        requirements=f"{_LAYER} {_RECTIFIERS}",
        query="layer gradient",
        needs_positions=True,
    ),
    _cam(
        cam.grad_cam_plus_plus,
        "Grad-CAM++",
        "Chattopadhay, Sarkar, Howlader and Balasubramanian, Grad-CAM++, WACV 2018",
        "As coarse as the layer; its closed form assumes an exponential of the score; close to a plain mean of "
        "positive activations (Lerma and Lucas 2022).",
    ),
    _cam(
        cam.xgrad_cam,
        "XGrad-CAM",
        "Fu, Hu, Dong, Guo, Gao and Li, Axiom-based Grad-CAM, BMVC 2020",
        "As coarse as the layer; a channel whose sum is near zero gets a huge weight.",
    ),
    _cam(
        cam.layer_cam,
        "LayerCAM",
        "Jiang, Zhang, Hou, Cheng and Wei, LayerCAM, IEEE Transactions on Image Processing 2021",
        "As coarse as the layer, as noisy as the gradient where the layer is early; evidence against the class is "
        "dropped. Here on one layer, without the fusion of several.",
    ),
    _cam(
        cam.hires_cam,
        "HiResCAM",
        "Draelos and Carin, Use HiResCAM Instead of Grad-CAM for Faithful Explanations of CNNs, 2020",
        "As coarse as the layer, as noisy as the gradient where the layer is early; evidence against the class is "
        "dropped only where it outweighs that for it.",
    ),
    _cam(
        cam.eigen_cam,
        "Eigen-CAM",
        "Muhammad and Yeasin, Eigen-CAM: Class Activation Map Using Principal Components, IJCNN 2020",
        "The same map for every class: it shows what the layer sees most of, not what the score uses.",
    ),
    _cam(
        cam.ablation_cam,
        "Ablation-CAM",
        "Desai and Ramaswamy, Ablation-CAM, WACV 2020",
        "Slow for wide layers; a channel of zeros may be unlike any the model was trained on.",
        "1 pass from the layer to the score per channel, 1 forward pass and 1 gradient",
    ),
    _cam(
        cam.score_cam,
        "Score-CAM",
        "Wang, Wang, Du, Yang, Zhang, Ding, Mardziel and Hu, Score-CAM, CVPR workshops 2020",
        "Slow for wide layers; with probabilities the softmax over channels is nearly flat; masked inputs are unlike "
        "any the model was trained on.",
        "1 forward pass per live channel, and 1 gradient",
    ),
    _cam(
        cam.score_cam_constant_masks,
        "Score-CAM with constant masks",
        "Not published: a candidate explanation, unproven, of the Score-CAM row in Table 1 of Sattarzadeh, Sudhakar "
        "and Plataniotis, SVEA, ICCV workshops 2021",
        "A mask does not depend on where a channel is active; weights are the gain in score when the whole input is "
        "dimmed. Not for comparison with other methods.",
        "1 forward pass per channel, and 1 more, and 1 gradient",
    ),
    _cam(
        cam.sise,
        "SISE",
        "Sattarzadeh, Sudhakar, Lem, Mehryar, Plataniotis, Jang, Kim, Jeong, Lee and Bae, Explaining CNNs through "
        "Attribution-Based Input Sampling, AAAI 2021",
        "Here on one layer, without the fusion of several blocks; masked inputs are unlike any the model was trained "
        "on. Where all their scores are negative, as logits may be, the map is zero.",
        "1 forward pass per channel with a positive gradient, and 1 gradient",
    ),
    _method(
        cam.attention_rollout,
        "Attention rollout",
        "attention",
        citation="Abnar and Zuidema, Quantifying Attention Flow in Transformers, ACL 2020",
        cost="1 forward pass, and a backward pass down to the first attention, whose gradients it does not use",
        weaknesses="The same map for every class; weights all heads equally and ignores values and other layers.",
        requirements=_SELF_ATTENTION,
        drops_channels=True,
        needs_positions=True,
    ),
    _method(
        cam.gradient_rollout,
        "Gradient x rollout",
        "attention",
        citation="Chefer, Gur and Wolf, Generic Attention-model Explainability, ICCV 2021",
        cost="1 forward pass, and the backward pass down to the first attention",
        weaknesses="Drops evidence against the class; ignores values and other layers.",
        requirements=_SELF_ATTENTION,
        drops_channels=True,
        needs_positions=True,
    ),
    _method(
        perturbation.rise,
        "RISE",
        "masks",
        citation="Petsiuk, Das and Saenko, RISE, BMVC 2018",
        cost="1 forward pass per mask, and 1 more",
        weaknesses="Slow; noisy below about 1,000 masks; cannot be finer than its cells or groups; with logits that "
        "may be negative the map loses its meaning.",
        requirements="Scores only; made for probabilities.",
        randomness="Masks, from the run's seed, the same for every input.",
        drops_channels=True,
    ),
    _method(
        perturbation.occlusion,
        "Occlusion",
        "masks",
        citation=_DECONVNET,
        cost="1 forward pass per patch or group, and 1 more",
        weaknesses="Depends on the patch and on its value; misses evidence that is present twice.",
        requirements="Scores only.",
        drops_channels=True,
    ),
    _method(
        perturbation.shapley_sampling,
        "Shapley sampling",
        "masks",
        citation="Castro, Gómez and Tejada, Polynomial Calculation of the Shapley Value Based on Sampling, 2009; "
        "antithetic: Mitchell, Cooper, Frank and Holmes, JMLR 2022",
        cost="permutations x (groups - 1) forward passes, and 2 more",
        weaknesses="Slow; noisy with few permutations where groups interact. Depends on the baseline and the groups; "
        "mixtures of input and baseline are unlike any input the model was trained on.",
        requirements="Scores only.",
        randomness=f"Permutations, {SEED_PER_INPUT}.",
        drops_channels=True,
        sum_law=BY_CONSTRUCTION,
    ),
    _method(
        perturbation.kernel_shap,
        "KernelSHAP",
        "masks",
        citation="Lundberg and Lee, A Unified Approach to Interpreting Model Predictions, NeurIPS 2017; pairs: Covert "
        "and Lee, AISTATS 2021",
        cost="1 forward pass per sample, and 2 more",
        weaknesses="Noisy where the samples are few for the number of groups, and refused where they do not determine "
        "its values; otherwise as Shapley sampling.",
        requirements="Scores only.",
        randomness=f"Coalitions, {SEED_PER_INPUT}; none where all are scored.",
        drops_channels=True,
        sum_law=BY_CONSTRUCTION,
    ),
    _method(
        perturbation.lime,
        "LIME",
        "masks",
        citation="Ribeiro, Singh and Guestrin, Why Should I Trust You?, KDD 2016",
        cost="1 forward pass per sample, and 1 more",
        weaknesses="Depends on the groups, the kernel's width and the penalty, for which there is no rule; with many "
        "groups nearly all samples have the same weight, and with fewer samples than groups the penalty decides.",
        requirements="Scores only.",
        randomness=f"Samples, {SEED_PER_INPUT}.",
        drops_channels=True,
    ),
    _method(
        perturbation.random,
        "Random map",
        "random",
        citation="A control of this project",
        cost="none",
        weaknesses="Explains nothing; a method that does not beat it explains nothing either.",
        requirements="Nothing.",
        randomness=f"All values, {SEED_PER_INPUT}.",
        drops_channels=True,
    ),
]
METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in (*_METHODS, *LIBRARY_METHODS)})


# Names that others give to methods of other names.
_ELSEWHERE = {
    "saliency": "gradient",
    "ig": "integrated_gradients",
    "shap": "kernel_shap",
    "feature_ablation": "occlusion",
}


def resolve_method(name: str) -> Method:
    """Return a method of the registry or a custom method.

    Parameters
    ----------
    name
        A name of ``METHODS``, such a name with the definition of a library, as ``integrated_gradients@captum``,
        ``module:function``, or ``path/to/file.py:function``; after ``torch:``, a function of a PyTorch network.

    Raises
    ------
    BadInput
        If there is no such method (the message lists the nearest names) or its library is not installed.
    """
    if not isinstance(name, str):
        raise BadInput(f"a method is of type {type(name).__name__}; give a name, a Method or a function")
    if name in METHODS:
        METHODS[name].library_version()
        return METHODS[name]
    if libraries.is_preset(name):
        return libraries.preset_method(name, METHODS)
    if name.startswith("torch:"):
        made: Method = imported("attribution_benchmarks.torch:method", "method")(name)
        return made
    if ":" in name:
        return _custom_method(name, imported(name, "method"))
    refuse_file_alone(name, "method")
    near = difflib.get_close_matches(_ELSEWHERE.get(name.lower(), name), METHODS, n=3, cutoff=0.4)
    hint = f"did you mean {listed(near)}?" if near else f"the methods are {listed(METHODS)}"
    raise BadInput(f"no method '{name}'; {hint} A custom method is written module:function")


def known_method(name: str) -> Method | None:
    """Return a method of the registry, or one as a library defines it; ``None`` for any other name."""
    if name in METHODS or not libraries.is_preset(name):
        return METHODS.get(name)
    try:
        return libraries.preset_method(name, METHODS)
    except BadInput:
        return None


def title_of(name: str) -> str:
    """Return what a method is called in tables; a custom method is called as its function."""
    method = known_method(name)
    return method.title if method else name.rpartition(":")[2]


def in_library(name: str, library: str) -> str:
    """Return the name of a method with the definition of a library; one that names a library already is unchanged."""
    return name if libraries.is_preset(name) or not library else f"{name}{libraries.MARK}{library}"


def name_of(method: Method | Callable[..., Any]) -> str:
    """Return what a method is called that was given without a name: as its function."""
    while isinstance(method, functools.partial):
        method = method.func
    return method.name if isinstance(method, Method) else str(getattr(method, "__name__", type(method).__name__))


def as_method(name: str, method: Method | Callable[..., Any]) -> Method:
    """Return a method under a name, or a user's function as one, with its attributes ``family`` and ``parents``.

    Raises
    ------
    BadInput
        If it cannot be called with one argument, has the name of a method of the registry, or its attributes are
        invalid.
    """
    if isinstance(method, Method):
        return method
    if not callable(method):
        raise BadInput(f"a method is of type {type(method).__name__}; give a name, a Method or a function")
    if name in METHODS:
        raise BadInput(f"'{name}': a method has this name; rename the function")
    return _custom_method(name, method)


def _custom_method(name: str, function: Callable[..., Any]) -> Method:
    """Return a user's function as a method."""
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise BadInput(f"method '{name}' cannot be called with one argument, its queries: {error}") from error
    except ValueError:  # written in C, without a signature to look at
        pass
    family = getattr(function, "family", None)
    if not (family is None or (isinstance(family, str) and family)):
        raise BadInput(f"method '{name}': its attribute family is {family!r}; set it to a word, such as 'gradient'")
    parents = _parents_of(name, function)
    family = family or next((METHODS[parent].family for parent in parents), None)
    return Method(name=name, title=name.rpartition(":")[2], function=function, family=family, parents=parents)


def _parents_of(name: str, function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the methods that a user's function varies, its attribute ``parents``."""
    parents = getattr(function, "parents", ())
    if not (isinstance(parents, list | tuple) and all(isinstance(one, str) and one in METHODS for one in parents)):
        raise BadInput(
            f"method '{name}': its attribute parents is {parents!r}; set it to a list of methods, such as ['gradient']"
        )
    return tuple(dict.fromkeys(parents))
