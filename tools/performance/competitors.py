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
    relus = [name for name in model.layers() if model.graph.nodes[name].op == "Relu"]

    def run(name, **options):
        return lambda images, targets: attribution.explain(
            name, model, images, targets, batch_size=batch_size, **options
        )

    return {
        "gradient": run("gradient"),
        "Guided Backprop": run("guided_backprop"),
        "Grad-CAM": run("grad_cam"),
        "Grad-CAM++": run("grad_cam_plus_plus"),
        "SmoothGrad": run("smoothgrad", samples=work.samples),
        "VarGrad": run("vargrad", samples=work.samples),
        "Integrated Gradients": run("integrated_gradients", points=work.samples),
        "Score-CAM": run("score_cam", layer=relus[work.relu]),
        "RISE": run("rise", masks=work.masks),
        "occlusion": run("occlusion", patch=patch_side(work, *model.inputs.values())),
        "LRP-α1β0": run("lrp_alpha1beta0"),
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
        def explain(images, targets):
            parts = np.array_split(np.arange(len(images)), -(-len(images) // batch_size))
            return [explainer(CategoricalScore(targets[rows].tolist()), images[rows], **options) for rows in parts]

        return explain

    relus = [layer.name for layer in network.layers if type(layer).__name__ in ("ReLU", "Activation")]
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

    layer = [layer for layer in network.layers if len(layer.output.shape) == 4][-1]
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
        def explain(images, targets):
            return [
                method(image, call, {"target": int(target)}, **options)
                for image, target in zip(images, targets, strict=True)
            ]

        return explain

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

    layer = [layer.name for layer in network.layers if len(layer.output.shape) == 4][-1]

    def run(explainer, per_call=batch_size, **options):
        def explain(images, targets):  # one class a call
            parts = np.array_split(np.arange(len(images)), -(-len(images) // per_call))
            return [explainer.explain((images[rows], None), network, int(targets[0]), **options) for rows in parts]

        return explain

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

    torch.set_num_threads(1)  # its threads spin while they wait, which would count as work

    module = torch_networks.small_resnet() if network.output_shape[-1] == 10 else torch_networks.resnet50()
    last = [layer for layer in module if isinstance(layer, torch_networks.Block)][-1]

    def run(explain_batch, inner=batch_size):
        def explain(images, targets):
            for start in range(0, len(images), inner):
                rows = slice(start, start + inner)
                x = torch.from_numpy(images[rows]).permute(0, 3, 1, 2).contiguous()
                explain_batch(x, torch.from_numpy(targets[rows]))

        return explain

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
    patch = patch_side(work, network.inputs[0])
    window = (3, patch, patch)
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


def patch_side(work, images):
    """Return the side of occlusion's patches in pixels."""
    return images.shape[1] // work.patches


LIBRARIES = {
    "xplique": xplique,
    "tf-keras-vis": tf_keras_vis,
    "saliency": saliency,
    "tf-explain": tf_explain,
    "captum": captum,
}
