"""The registry: every attribution method by name, with its defaults and method card.

A new method is one function and one entry here; every command line and docs/methods.md read this list. The
method cards follow the dimensions of Sokol and Flach (2020). This module imports no TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attribution.lrp import presets
from attribution.methods import (
    attention,
    cam,
    completeness,
    deeplift,
    expected_gradients,
    gradients,
    guided_integrated_gradients,
    modified_relu,
    perturbation,
    third_party,
)
from attribution.methods.method import Method, MethodCard

_SEED_PER_INPUT = "drawn from the run's seed and each input's key"
_NO_RANDOMNESS = "None: same input, same map."
_ANY = "Any model differentiable in its input."
_RELU = (
    "All nonlinear operations between input and score are Relu, Relu6, LeakyRelu, PReLU or pooling; others, and "
    "products of two factors that depend on the input, are refused by name. Published for ReLU alone; for the others "
    "the activation's own slope stands in the same formula."
)
_RULES = "Operations that have a relevance rule; others are refused by name. What is shared out is always the logit."
_LRP = "Bach, Binder, Montavon, Klauschen, Müller and Samek, On Pixel-Wise Explanations, PLOS ONE 2015"
_ABSORBED = "biases and other inputs take relevance, and so does ε where values are small"
_ABSORBED_POSITIVE = f"{_ABSORBED}; rules of positive parts lose that of negative sums"
_ABSORBED_AND_SOFTMAX = f"{_ABSORBED}; softmax keeps part of it"
_SELF_ATTENTION = "Self-attention among all tokens, computed by Softmax operations; square patches on a grid."
_CONVOLUTIONAL = "A layer that keeps positions; by default the last one ahead of pooling and head."


def _peer(library, name, title, function, cost, differs, randomness=_NO_RANDOMNESS):
    """Return a method of another library; its weakness is how it differs from what it is named after."""
    needs = "The live Keras network (attribution.methods.third_party.attach)." + (
        " Images." if library == "tf-explain" else ""
    )
    facts = MethodCard(f"{library}, {_LIBRARIES[library]}", needs, cost, randomness, differs)
    is_random = randomness is not _NO_RANDOMNESS
    title = f"{title} ({library})"
    family = next(method.family for method in _OWN_METHODS if method.name == name)
    name = f"{library.replace('-', '_')}.{name}"
    return Method(name, title, function, facts, library, is_random=is_random, family=family)


_LIBRARIES = {"tf-keras-vis": "version 0.8", "tf-explain": "version 0.3"}
_SCALED = "Each map is scaled to [0, 1] by itself, so that maps of two models cannot be compared in size."
_OWN_METHODS = [
    Method(
        "gradient",
        "Vanilla Gradient",
        gradients.gradient,
        MethodCard(
            citation="Simonyan, Vedaldi and Zisserman, Deep Inside Convolutional Networks, ICLR workshop 2014",
            requirements=_ANY,
            cost="1 G",
            randomness=_NO_RANDOMNESS,
            weaknesses="Noisy; blind where the score is saturated; says what would change the score, not what made it.",
        ),
        family="gradient",
        query="input gradient",
    ),
    Method(
        "gradient_x_input",
        "Gradient x Input",
        gradients.gradient_x_input,
        MethodCard(
            citation="Shrikumar, Greenside, Shcherbina and Kundaje, Not Just a Black Box, 2016",
            requirements=_ANY,
            cost="1 G",
            randomness=_NO_RANDOMNESS,
            weaknesses="Zero wherever the input is zero, whatever the model makes of it; depends on how "
            "inputs were centred.",
        ),
        family="path",
        query="input gradient",
    ),
    Method(
        "integrated_gradients",
        "Integrated Gradients",
        gradients.integrated_gradients,
        MethodCard(
            citation="Sundararajan, Taly and Yan, Axiomatic Attribution for Deep Networks, ICML 2017",
            requirements=_ANY + " A baseline that stands for the absence of signal.",
            cost="points G",
            randomness=_NO_RANDOMNESS,
            weaknesses="Depends on the baseline; parts of the input that equal it get nothing; few points "
            "leave a gap between the map's sum and f(x) - f(baseline).",
        ),
        family="path",
        sum_law=completeness.BY_POINTS,
    ),
    Method(
        "smoothgrad",
        "SmoothGrad",
        gradients.smoothgrad,
        MethodCard(
            citation="Smilkov, Thorat, Kim, Viégas and Wattenberg, SmoothGrad, 2017; squared: Hooker, Erhan, "
            "Kindermans and Kim, A Benchmark for Interpretability Methods, NeurIPS 2019",
            requirements=_ANY,
            cost="samples G, and 1 G for targets to be predicted",
            randomness=f"Gaussian noise, {_SEED_PER_INPUT}.",
            weaknesses="Explains the model around the input rather than at it; the noise level decides what is seen.",
        ),
        family="gradient",
        is_random=True,
    ),
    Method(
        "vargrad",
        "VarGrad",
        gradients.vargrad,
        MethodCard(
            citation="Adebayo, Gilmer, Goodfellow and Kim, Local Explanation Methods, ICLR workshop 2018",
            requirements=_ANY,
            cost="as SmoothGrad; nothing beside SmoothGrad with the same noise",
            randomness=f"Gaussian noise, {_SEED_PER_INPUT}.",
            weaknesses="Has no sign; zero for a model that is linear around the input.",
        ),
        family="gradient",
        query="squared gradients",
        is_random=True,
    ),
    Method(
        "expected_gradients",
        "Expected Gradients",
        expected_gradients.expected_gradients,
        MethodCard(
            citation="Erion, Janizek, Sturmfels, Lundberg and Lee, Improving Performance of Deep Learning Models with "
            "Axiomatic Attribution Priors and Expected Gradients, Nature Machine Intelligence 2021",
            requirements=_ANY + " References that inputs are compared with, best some of the training data.",
            cost="samples G, and 1 G for targets to be predicted",
            randomness=f"References and points on the paths, {_SEED_PER_INPUT}.",
            weaknesses="Explains the difference from the references: with the default, zero, it is Integrated "
            "Gradients at random points, and noisier. The sum is right in expectation alone.",
        ),
        family="path",
        is_random=True,
        sum_law=completeness.BY_SAMPLES,
    ),
    Method(
        "guided_integrated_gradients",
        "Guided Integrated Gradients",
        guided_integrated_gradients.guided_integrated_gradients,
        MethodCard(
            citation="Kapishnikov, Venugopalan, Avci, Wedin, Terry and Bolukbasi, Guided Integrated Gradients, CVPR "
            "2021",
            requirements=_ANY + " A baseline that stands for the absence of signal.",
            cost="steps G, one after another, and 1 G for targets to be predicted",
            randomness=_NO_RANDOMNESS,
            weaknesses="The path depends on the input: where two inputs get different maps, the path may be why. A "
            "baseline is needed as for Integrated Gradients.",
        ),
        family="path",
        sum_law=completeness.BY_STEPS,
    ),
    Method(
        "deeplift",
        "DeepLIFT (rescale)",
        deeplift.deeplift,
        MethodCard(
            citation="Shrikumar, Greenside and Kundaje, Learning Important Features Through Propagating Activation "
            "Differences, ICML 2017; products and maxima: Lundberg and Lee, NeurIPS 2017",
            requirements="Linear operations, functions of one variable, products, quotients, maxima and softmax; "
            "others are refused by name. What is shared out is always the logit.",
            cost="1 G + 1 F",
            randomness=_NO_RANDOMNESS,
            weaknesses="Depends on the baseline, and on how the network computes its function: two networks with the "
            "same scores may get different maps.",
        ),
        family="relevance",
        sum_law=completeness.BY_CHORDS,
    ),
    Method(
        "guided_backprop",
        "Guided Backprop",
        modified_relu.guided_backprop,
        MethodCard(
            citation="Springenberg, Dosovitskiy, Brox and Riedmiller, Striving for Simplicity, ICLR workshop 2015",
            requirements=_RELU,
            cost="1 G",
            randomness=_NO_RANDOMNESS,
            weaknesses="Close to a reconstruction of the input: it changes little with the class or with the "
            "upper layers' weights (Adebayo et al. 2018; Nie et al. 2018).",
        ),
        family="changed ReLU",
    ),
    Method(
        "deconvnet",
        "Deconvnet",
        modified_relu.deconvnet,
        MethodCard(
            citation="Zeiler and Fergus, Visualizing and Understanding Convolutional Networks, ECCV 2014",
            requirements=_RELU,
            cost="1 G",
            randomness=_NO_RANDOMNESS,
            weaknesses="Ignores which ReLUs were active, so that without max-pooling it hardly depends on the input.",
        ),
        family="changed ReLU",
    ),
    Method(
        "lrp_epsilon",
        "LRP-ε",
        presets.lrp_epsilon,
        MethodCard(
            citation=_LRP,
            requirements=_RULES,
            cost="about 2 G",
            randomness=_NO_RANDOMNESS,
            weaknesses="On ReLU networks no more than input times gradient. Attention and gates are constants, as in "
            "lrp_cp.",
        ),
        family="relevance",
        sum_law=completeness.relevance_law(_ABSORBED),
    ),
    Method(
        "lrp_epsilon_plus",
        "LRP-ε+",
        presets.lrp_epsilon_plus,
        MethodCard(
            citation="Montavon, Binder, Lapuschkin, Samek and Müller, Layer-Wise Relevance Propagation: An "
            "Overview, 2019",
            requirements=_RULES,
            cost="about 2 G",
            randomness=_NO_RANDOMNESS,
            weaknesses="Negative evidence is lost in the convolutions. Positive biases take relevance: in deep "
            "networks with folded BatchNorm little of the logit may arrive at the input. A residual block's sum is "
            "shared out among its branches by value, as in zennit; `sums='joint'` treats it as one layer.",
        ),
        family="relevance",
        sum_law=completeness.relevance_law(_ABSORBED_POSITIVE),
    ),
    Method(
        "lrp_alpha1beta0",
        "LRP-α1β0",
        presets.lrp_alpha1beta0,
        MethodCard(
            citation=_LRP + "; z+: Montavon, Lapuschkin, Binder, Samek and Müller, Deep Taylor "
            "Decomposition, Pattern Recognition 2017",
            requirements=_RULES,
            cost="about 2 G",
            randomness=_NO_RANDOMNESS,
            weaknesses="Sees positive evidence alone; in deep networks the map hardly depends on the class "
            "(Sixt, Granz and Landgraf 2020). Made for non-negative activations: sums of negative ones (transformers, "
            "recurrent layers) lose relevance. Biases and residual sums as in lrp_epsilon_plus.",
        ),
        family="relevance",
        sum_law=completeness.relevance_law(_ABSORBED_POSITIVE),
    ),
    Method(
        "lrp_cp",
        "CP-LRP",
        presets.lrp_cp,
        MethodCard(
            citation="Ali, Schnake, Eberle, Montavon, Müller and Wolf, XAI for Transformers: Better Explanations "
            "through Conservative Propagation, ICML 2022; gates: Arras, Montavon, Müller and Samek, Explaining "
            "Recurrent Neural Network Predictions in Sentiment Analysis, WASSA 2017",
            requirements=_RULES,
            cost="about 2 G",
            randomness=_NO_RANDOMNESS,
            weaknesses="Says nothing of where a transformer attends and why, only of what it takes from there; on "
            "ReLU networks no more than input times gradient.",
        ),
        family="relevance",
        sum_law=completeness.relevance_law(_ABSORBED),
    ),
    Method(
        "lrp_attn",
        "AttnLRP",
        presets.lrp_attn,
        MethodCard(
            citation="Achtibat, Hatefi, Dreyer, Jain, Wiegand, Lapuschkin and Samek, AttnLRP: Attention-Aware "
            "Layer-Wise Relevance Propagation for Transformers, ICML 2024. Its authors' own implementation, LXT, "
            "describes the method as patented and free for personal and scientific use only.",
            requirements=_RULES,
            cost="about 2 G",
            randomness=_NO_RANDOMNESS,
            weaknesses="Softmax keeps part of the relevance, so that a map's sum is not the logit; ε alone is noisy on "
            "vision transformers.",
        ),
        family="relevance",
        sum_law=completeness.relevance_law(_ABSORBED_AND_SOFTMAX),
    ),
    Method(
        "lrp_clevr_xai",
        "LRP (CLEVR-XAI)",
        presets.lrp_clevr_xai,
        MethodCard(
            citation="Arras, Osman and Samek, CLEVR-XAI, Information Fusion 2022",
            requirements=_RULES + " Inputs between `low` and `high`; others are refused.",
            cost="about 2 G",
            randomness=_NO_RANDOMNESS,
            weaknesses="As LRP-α1β0; the range of the inputs has to be given rightly.",
        ),
        family="relevance",
        sum_law=completeness.relevance_law(_ABSORBED_POSITIVE),
    ),
    Method(
        "excitation_backprop",
        "Excitation Backprop",
        presets.excitation_backprop,
        MethodCard(
            citation="Zhang, Bargal, Lin, Brandt, Shen and Sclaroff, Top-Down Neural Attention by Excitation "
            "Backprop, IJCV 2018",
            requirements=_RULES + " Made for non-negative activations.",
            cost="about 2 G",
            randomness=_NO_RANDOMNESS,
            weaknesses="Sees positive evidence alone; hardly depends on the class in deep networks.",
        ),
        family="relevance",
        sum_law=completeness.EXCITATION,
    ),
    Method(
        "grad_cam",
        "Grad-CAM",
        cam.grad_cam,
        MethodCard(
            citation="Selvaraju, Cogswell, Das, Vedantam, Parikh and Batra, Grad-CAM, ICCV 2017",
            requirements=_CONVOLUTIONAL,
            cost="1 F + the backward pass down to the layer",
            randomness=_NO_RANDOMNESS,
            weaknesses="As coarse as the layer; all zero where every weighted sum is negative; averaging "
            "the gradient over positions mixes several objects.",
        ),
        family="class activation",
        query="layer gradient",
        drops_channels=True,
    ),
    Method(
        "guided_grad_cam",
        "Guided Grad-CAM",
        cam.guided_grad_cam,
        MethodCard(
            citation="Selvaraju, Cogswell, Das, Vedantam, Parikh and Batra, Grad-CAM, ICCV 2017",
            requirements=_CONVOLUTIONAL + " " + _RELU,
            cost="1 G + 1 F + the backward pass down to the layer",
            randomness=_NO_RANDOMNESS,
            weaknesses="Fine detail from Guided Backprop, which is not specific to the class; where it is from "
            "Grad-CAM.",
        ),
        family="changed ReLU",
        query="layer gradient",
    ),
    Method(
        "grad_cam_plus_plus",
        "Grad-CAM++",
        cam.grad_cam_plus_plus,
        MethodCard(
            citation="Chattopadhay, Sarkar, Howlader and Balasubramanian, Grad-CAM++, WACV 2018",
            requirements=_CONVOLUTIONAL,
            cost="1 F + the backward pass down to the layer",
            randomness=_NO_RANDOMNESS,
            weaknesses="As coarse as the layer; its closed form assumes an exponential of the score; close "
            "to a plain mean of positive activations (Lerma and Lucas 2022).",
        ),
        family="class activation",
        query="layer gradient",
        drops_channels=True,
    ),
    Method(
        "xgrad_cam",
        "XGrad-CAM",
        cam.xgrad_cam,
        MethodCard(
            citation="Fu, Hu, Dong, Guo, Gao and Li, Axiom-based Grad-CAM, BMVC 2020",
            requirements=_CONVOLUTIONAL,
            cost="1 F + the backward pass down to the layer",
            randomness=_NO_RANDOMNESS,
            weaknesses="As coarse as the layer; a channel whose sum is near zero gets a huge weight.",
        ),
        family="class activation",
        query="layer gradient",
        drops_channels=True,
    ),
    Method(
        "layer_cam",
        "LayerCAM",
        cam.layer_cam,
        MethodCard(
            citation="Jiang, Zhang, Hou, Cheng and Wei, LayerCAM, IEEE Transactions on Image Processing 2021",
            requirements=_CONVOLUTIONAL,
            cost="1 F + the backward pass down to the layer",
            randomness=_NO_RANDOMNESS,
            weaknesses="As coarse as the layer, as noisy as the gradient where the layer is early; evidence against "
            "the class is left out. Here on one layer, without the fusion of several.",
        ),
        family="class activation",
        query="layer gradient",
        drops_channels=True,
    ),
    Method(
        "score_cam",
        "Score-CAM",
        cam.score_cam,
        MethodCard(
            citation="Wang, Wang, Du, Yang, Zhang, Ding, Mardziel and Hu, Score-CAM, CVPR workshops 2020",
            requirements=_CONVOLUTIONAL,
            cost="live channels F + 1 G",
            randomness=_NO_RANDOMNESS,
            weaknesses="Slow for wide layers; with probabilities the softmax over channels is nearly flat; "
            "masked inputs are unlike any the model was trained on.",
        ),
        family="class activation",
        query="layer gradient",
        drops_channels=True,
    ),
    Method(
        "score_cam_constant_masks",
        "Score-CAM, constant masks",
        cam.score_cam_constant_masks,
        MethodCard(
            citation="No paper proposes it: a candidate explanation, unproven, of the Score-CAM row in Table 1 of "
            "Sattarzadeh, Sudhakar and Plataniotis, SVEA, ICCV workshops 2021",
            requirements=_CONVOLUTIONAL,
            cost="channels F + 1 F + 1 G",
            randomness=_NO_RANDOMNESS,
            weaknesses="A mask says nothing of where a channel is active; weights are what the score gains when the "
            "whole input is dimmed. Not for comparison with other methods.",
        ),
        family="class activation",
        query="layer gradient",
        drops_channels=True,
    ),
    Method(
        "sise",
        "SISE",
        cam.sise,
        MethodCard(
            citation="Sattarzadeh, Sudhakar, Lem, Mehryar, Plataniotis, Jang, Kim, Jeong, Lee and Bae, "
            "Explaining CNNs through Attribution-Based Input Sampling, AAAI 2021",
            requirements=_CONVOLUTIONAL,
            cost="channels with a positive gradient F + 1 G",
            randomness=_NO_RANDOMNESS,
            weaknesses="Here on one layer, without the fusion of several blocks; masked inputs are unlike "
            "any the model was trained on. Where all their scores are negative, as logits may be, the map is zero.",
        ),
        family="class activation",
        query="layer gradient",
        drops_channels=True,
    ),
    Method(
        "attention_rollout",
        "Attention rollout",
        attention.attention_rollout,
        MethodCard(
            citation="Abnar and Zuidema, Quantifying Attention Flow in Transformers, ACL 2020",
            requirements=_SELF_ATTENTION,
            cost="1 F + a backward pass down to the first attention, whose gradients it does not use",
            randomness=_NO_RANDOMNESS,
            weaknesses="The same map for every class; heads count alike, and neither values nor other layers count.",
        ),
        family="attention",
        drops_channels=True,
    ),
    Method(
        "gradient_rollout",
        "Gradient x rollout",
        attention.gradient_rollout,
        MethodCard(
            citation="Chefer, Gur and Wolf, Generic Attention-model Explainability, ICCV 2021",
            requirements=_SELF_ATTENTION,
            cost="1 F + the backward pass down to the first attention",
            randomness=_NO_RANDOMNESS,
            weaknesses="Evidence against the class is left out; neither values nor other layers count.",
        ),
        family="attention",
        drops_channels=True,
    ),
    Method(
        "rise",
        "RISE",
        perturbation.rise,
        MethodCard(
            citation="Petsiuk, Das and Saenko, RISE, BMVC 2018",
            requirements="Scores only; made for probabilities.",
            cost="masks F + 1 F",
            randomness="Masks, drawn from the run's seed, the same for every input.",
            weaknesses="Slow; noisy below some 1,000 masks; cannot be finer than its cells; with logits "
            "that may be negative the map loses its meaning.",
        ),
        family="masks",
        is_random=True,
        drops_channels=True,
    ),
    Method(
        "occlusion",
        "Occlusion",
        perturbation.occlusion,
        MethodCard(
            citation="Zeiler and Fergus, Visualizing and Understanding Convolutional Networks, ECCV 2014",
            requirements="Scores only.",
            cost="patches F + 1 F",
            randomness=_NO_RANDOMNESS,
            weaknesses="Depends on the patch and on what covers it; misses evidence that is present twice.",
        ),
        family="masks",
        drops_channels=True,
    ),
    Method(
        "random",
        "Random map",
        perturbation.random,
        MethodCard(
            citation="A control of this project",
            requirements="Nothing.",
            cost="none",
            randomness=f"Everything, {_SEED_PER_INPUT}.",
            weaknesses="Explains nothing; a method that does not beat it explains nothing either.",
        ),
        family="random",
        is_random=True,
        drops_channels=True,
    ),
]
_PEERS = [
    _peer("tf-keras-vis", "gradient", "Saliency", third_party.tf_keras_vis_gradient, "1 G",
          f"The largest channel of |gradient|. {_SCALED}"),
    _peer("tf-keras-vis", "smoothgrad", "SmoothGrad", third_party.tf_keras_vis_smoothgrad, "samples G",
          f"The largest channel of |mean gradient|. {_SCALED} The noise depends on the batch.",
          "Gaussian noise, drawn from a seed per block of inputs."),
    _peer("tf-keras-vis", "guided_backprop", "Guided Backprop", third_party.tf_keras_vis_guided_backprop, "1 G",
          f"The largest channel of |guided gradient|. {_SCALED}"),
    _peer("tf-keras-vis", "grad_cam", "Grad-CAM", third_party.tf_keras_vis_grad_cam, "1 F + a backward pass",
          f"Upsampled by cubic splines. {_SCALED}"),
    _peer("tf-keras-vis", "grad_cam_plus_plus", "Grad-CAM++", third_party.tf_keras_vis_grad_cam_plus_plus,
          "1 F + a backward pass", f"Upsampled by cubic splines. {_SCALED}"),
    _peer("tf-keras-vis", "score_cam", "Score-CAM", third_party.tf_keras_vis_score_cam, "channels F",
          f"Upsampled by cubic splines. {_SCALED}"),
    _peer("tf-explain", "gradient", "Vanilla Gradient", third_party.tf_explain_gradient, "1 G",
          "Absolute values, summed over channels."),
    _peer("tf-explain", "gradient_x_input", "Gradient x Input", third_party.tf_explain_gradient_x_input, "1 G",
          "Absolute values, summed over channels."),
    _peer("tf-explain", "integrated_gradients", "Integrated Gradients", third_party.tf_explain_integrated_gradients,
          "points G", "Never multiplied by the input, hence not complete; absolute values, summed over channels."),
    _peer("tf-explain", "smoothgrad", "SmoothGrad", third_party.tf_explain_smoothgrad, "samples G",
          "Differentiates the cross-entropy instead of the score; the noise's standard deviation is a number, "
          "whatever the input's range.", f"Gaussian noise, {_SEED_PER_INPUT}."),
    _peer("tf-explain", "grad_cam", "Grad-CAM", third_party.tf_explain_grad_cam, "1 F + a backward pass",
          "Gradients are kept only where activation and gradient are positive, before they are averaged; the map "
          "has no final ReLU."),
    _peer("tf-explain", "occlusion", "Occlusion", third_party.tf_explain_occlusion, "patches F",
          "Covers with the value 127.5 whatever the input's range, and reports 1 - score, as if scores were "
          "probabilities."),
]  # fmt: skip

METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in (*_OWN_METHODS, *_PEERS)})
