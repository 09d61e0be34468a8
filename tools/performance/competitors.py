"""The same explanations by different libraries, each called the way its documentation shows.

Each function takes a network, ``batch_size`` and ``networks.Work``, and returns its contenders by method. A contender
is a function of images and targets. What a library lacks, or computes under the same name with another meaning, is
left out; ``NOT_THE_METHOD`` names what is timed all the same because the work is the same.
"""

import numpy as np
import tensorflow as tf

import attribution

NOT_THE_METHOD = {("tf-explain", "SmoothGrad"), ("tf-explain", "Integrated Gradients")}


def ours(model, batch_size, work):
    relus = [name for name in model.layers() if model.graph.nodes[name].op == "Relu"] or [None]

    def run(name, **options):
        return lambda images, targets: attribution.explain(
            name, model, images, targets, batch_size=batch_size, **options
        )

    (shape,) = (spec.shape for spec in model.inputs.values())
    return {
        "gradient": run("gradient"),
        "Guided Backprop": run("guided_backprop"),
        "Grad-CAM": run("grad_cam"),
        "Grad-CAM++": run("grad_cam_plus_plus"),
        "SmoothGrad": run("smoothgrad", samples=work.samples),
        "VarGrad": run("vargrad", samples=work.samples),
        "Integrated Gradients": run("integrated_gradients", points=work.samples),
        "Expected Gradients": run("expected_gradients", samples=work.samples, references=references(*shape)),
        "Score-CAM": run("score_cam", layer=relus[work.relu]),
        "RISE": run("rise", masks=work.masks),
        "occlusion": run("occlusion", patch=patch_side(work, *model.inputs.values())),
        "LRP-ε+": run("lrp_epsilon_plus"),
        "LRP-α1β0": run("lrp_alpha1beta0"),
        "Excitation Backprop": run("excitation_backprop"),
    }


def xplique(network, batch_size, work):
    from xplique import attributions as library

    patch = patch_side(work, network.inputs[0])

    def run(kind, **options):
        explainer = kind(network, batch_size=batch_size, **options)
        classes = network.output_shape[-1]
        return lambda images, targets: explainer(images, tf.one_hot(targets, classes)).numpy()

    return {
        "gradient": run(library.Saliency),
        "Guided Backprop": run(library.GuidedBackprop),
        "Grad-CAM": run(library.GradCAM),
        "Grad-CAM++": run(library.GradCAMPP),
        "SmoothGrad": run(library.SmoothGrad, nb_samples=work.samples),
        "VarGrad": run(library.VarGrad, nb_samples=work.samples),
        "Integrated Gradients": run(library.IntegratedGradients, steps=work.samples),
        "RISE": run(library.Rise, nb_samples=work.masks),
        "occlusion": run(library.Occlusion, patch_size=patch, patch_stride=patch),
    }


def tf_keras_vis(network, batch_size, work):
    from tf_keras_vis.gradcam import Gradcam
    from tf_keras_vis.gradcam_plus_plus import GradcamPlusPlus
    from tf_keras_vis.saliency import Saliency
    from tf_keras_vis.scorecam import Scorecam
    from tf_keras_vis.utils.model_modifiers import GuidedBackpropagation
    from tf_keras_vis.utils.scores import CategoricalScore

    def run(explainer, **options):
        return in_batches(lambda x, t: explainer(CategoricalScore(t.tolist()), x, **options), batch_size)

    relus = [layer.name for layer in network.layers if type(layer).__name__ in ("ReLU", "Activation")] or [None]
    saliency = Saliency(network, clone=True)
    return {
        "gradient": run(saliency),
        "Guided Backprop": run(Saliency(network, model_modifier=GuidedBackpropagation(), clone=True)),
        "SmoothGrad": run(saliency, smooth_samples=work.samples, smooth_noise=0.15),
        "Grad-CAM": run(Gradcam(network, clone=True)),
        "Grad-CAM++": run(GradcamPlusPlus(network, clone=True)),
        "Score-CAM": run(Scorecam(network, clone=True), penultimate_layer=relus[work.relu]),
    }


def saliency(network, batch_size, work):
    """One image at a time, with the eager call function of the library's notebook."""
    import keras
    import saliency.core as library

    layer = [layer for layer in network.layers if len(layer.output.shape) > 2][-1]
    both = keras.Model(network.inputs, [layer.output, network.outputs[0]])

    def call(images, call_model_args=None, expected_keys=None):
        images = tf.convert_to_tensor(images, tf.float32)
        with tf.GradientTape() as tape:
            tape.watch(images)
            values, scores = both(images)
            score = scores[:, call_model_args["target"]]
            if expected_keys == [library.INPUT_OUTPUT_GRADIENTS]:
                return {library.INPUT_OUTPUT_GRADIENTS: tape.gradient(score, images).numpy()}
        return {
            library.CONVOLUTION_LAYER_VALUES: values.numpy(),
            library.CONVOLUTION_OUTPUT_GRADIENTS: tape.gradient(score, values).numpy(),
        }

    def run(method, **options):
        return in_batches(lambda x, t: method(x[0], call, {"target": int(t[0])}, **options), 1)

    return {
        "gradient": run(library.GradientSaliency().GetMask),
        "Grad-CAM": run(library.GradCam().GetMask),
        "SmoothGrad": run(library.GradientSaliency().GetSmoothedMask, nsamples=work.samples),
        "Integrated Gradients": run(library.IntegratedGradients().GetMask, x_steps=work.samples, batch_size=batch_size),
    }


def tf_explain(network, batch_size, work):
    from tf_explain.core.grad_cam import GradCAM
    from tf_explain.core.integrated_gradients import IntegratedGradients
    from tf_explain.core.occlusion_sensitivity import OcclusionSensitivity
    from tf_explain.core.smoothgrad import SmoothGrad
    from tf_explain.core.vanilla_gradients import VanillaGradients

    layer = [layer.name for layer in network.layers if len(layer.output.shape) > 2][-1]

    def run(explainer, size=batch_size, **options):  # one class a call
        return in_batches(lambda x, t: explainer.explain((x, None), network, int(t[0]), **options), size)

    few = max(1, batch_size // work.samples)
    return {
        "gradient": run(VanillaGradients()),
        "Grad-CAM": run(GradCAM(), layer_name=layer),
        "SmoothGrad": run(SmoothGrad(), few, num_samples=work.samples),
        "Integrated Gradients": run(IntegratedGradients(), few, n_steps=work.samples),
        "occlusion": run(OcclusionSensitivity(batch_size), patch_size=patch_side(work, network.inputs[0])),
    }


def captum(network, batch_size, work):
    """The same architecture in PyTorch; attributions of a whole batch, samples streamed by the batch size."""
    import torch
    import torch_networks
    from captum import attr as library

    module = torch_networks.build(network)
    last = module.features[-1] if hasattr(module, "features") else module[-4]

    def run(explain_batch, inner=batch_size):
        return in_batches(lambda x, t: explain_batch(torch_networks.tensor(x), torch.from_numpy(t)), inner)

    together = min(work.samples, batch_size)  # noisy copies of one image in one pass
    few = batch_size // together

    def noisy(kind):
        tunnel = library.NoiseTunnel(library.Saliency(module))
        options = {"nt_type": kind, "nt_samples": work.samples, "nt_samples_batch_size": together}
        return lambda x, t: tunnel.attribute(x, stdevs=0.15, target=t, abs=False, **options)

    gradient, guided = library.Saliency(module), library.GuidedBackprop(module)
    cam, path, cover = (
        library.LayerGradCam(module, last),
        library.IntegratedGradients(module),
        library.Occlusion(module),
    )
    window = (network.input_shape[-1], *[patch_side(work, network.inputs[0])] * (len(network.input_shape) - 2))
    return {
        "gradient": run(lambda x, t: gradient.attribute(x, target=t, abs=False)),
        "Guided Backprop": run(lambda x, t: guided.attribute(x, target=t)),
        "Grad-CAM": run(lambda x, t: cam.attribute(x, target=t)),
        "SmoothGrad": run(noisy("smoothgrad"), inner=few),
        "VarGrad": run(noisy("vargrad"), inner=few),
        "Integrated Gradients": run(
            lambda x, t: path.attribute(x, target=t, n_steps=work.samples, internal_batch_size=batch_size)
        ),
        "occlusion": run(lambda x, t: cover.attribute(x, window, strides=window, target=t)),
    }


def zennit(network, batch_size, work):
    """The composites whose maps are ours, as ``oracles_torch.py`` compares them; scores of one class a call."""
    import oracles_torch
    import torch_networks

    if network.name in ("efficientnetb0", "vit_tiny"):
        return {}  # no rules for gates and attention
    module = torch_networks.build(network, oracles_torch.Residual, work.same_weights)
    rules = oracles_torch.composites_of(1e-6)

    def run(name, start=None):
        def explain(x, t):
            return oracles_torch.by_zennit(module, torch_networks.tensor(x), int(t[0]), rules[name], start)

        return in_batches(lambda x, t: explain(x, t).movedim(1, -1).numpy(force=True), batch_size)

    found = {"LRP-ε+": run("epsilon_plus"), "LRP-α1β0": run("z_plus")}
    if network.name == "cnn1d":  # sums of positive and negative values are shared otherwise
        found["Excitation Backprop"] = run("excitation", 1.0)
    return found


def shap(network, batch_size, work):
    """Expected gradients of the live Keras network, of given classes and not of all."""
    import shap as library

    explainer = library.GradientExplainer(network, references(*network.input_shape), batch_size=batch_size)
    options = {"nsamples": work.samples, "output_rank_order": "custom"}
    return {"Expected Gradients": lambda x, t: explainer.shap_values(x, ranked_outputs=t[:, np.newaxis], **options)}


def references(_, *shape):
    """Return the references of Expected Gradients."""
    return np.random.default_rng(1).random((2, *shape), dtype=np.float32)


def in_batches(explain, size):
    """Return a contender that calls a function of a batch and its targets; the results are a list."""
    return lambda images, targets: [
        explain(images[start : start + size], targets[start : start + size]) for start in range(0, len(images), size)
    ]


def patch_side(work, images):
    """Return the side of occlusion's patches in pixels."""
    return images.shape[1] // work.patches


LIBRARIES = {
    "xplique": xplique,
    "tf-keras-vis": tf_keras_vis,
    "saliency": saliency,
    "tf-explain": tf_explain,
    "captum": captum,
    "zennit": zennit,
    "shap": shap,
}
