"""BIM as a definition: what the report and other tools need to know of it."""

from __future__ import annotations

from attribution_benchmarks.core.controls import GROUND_TRUTH
from attribution_benchmarks.core.definition import Benchmark, ReportTask, Trend
from bim.attributions import COSTLY, MAPS, PRINTED
from bim.controls import CONTROLS, OWN
from bim.scores import METRICS


def report_tasks(quick: bool, seed: int) -> list[ReportTask]:
    """Return the commands of a quick or a whole run."""
    images, contrast_images, counterparts = (6, 4, 4) if quick else (60, 10, 10)
    seeded = (f"--seed={seed}",) if seed else ()
    return [
        ReportTask(
            "bim", "bim", "BIM: MCS, IDR and IIR", ("-m", "bim.metrics", f"--num_imgs={images}", *seeded),
            tuple(name for name in PRINTED if not (quick and name in COSTLY)),
            f"{images} images of each drawn set with the authors' parameters; those count that both networks of a pair "
            "classify rightly. The paper scores up to 10,000 photographs. Methods are also held against their own maps "
            f"on networks with random weights, all but {MAPS[COSTLY[0]].title}; Score-CAM and SISE "
            "against one of them.",
            metrics=("MCS", "IDR", "IIR"),
            model_flag="--models=obj=",
            random_networks=True,
            cost=45 if quick else 640,
        ),
        ReportTask(
            "bim_rmcs", "bim", "BIM: relative MCS",
            ("-m", "bim.metrics", "--metrics=RMCS", f"--num_imgs={contrast_images}", *seeded),
            tuple(name for name in PRINTED if name not in COSTLY)[: 4 if quick else None],
            f"{contrast_images} images under ten networks, without {MAPS[COSTLY[0]].title}, whose 625 gradients an "
            "image would take longer than all else.",
            input_scores=False,
            shared=False,
            cost=20,
        ),
        ReportTask(
            "bim_tcav", "bim", "BIM: TCAV", ("-m", "bim.run_tcav", f"--num_random={counterparts}", *seeded),
            note=f"The concept “dog” against {counterparts} random counterparts.",
            input_scores=False, scores=False, pictures=False, shared=False,
        ),
    ]  # fmt: skip


BENCHMARK = Benchmark(
    name="bim",
    title="BIM",
    about="Objects are pasted on scenes, and networks are trained to name one or the other. So it is known beforehand "
    "for which network the object matters, and a map of attributions either shows it or not. The images here are "
    "drawn; figures of the paper, which are of photographs, cannot be compared with them.",
    paper="Yang and Kim, Benchmarking Attribution Methods with Relative Feature Importance, 2019",
    metrics=tuple(METRICS[name] for name in ("MCS", "IDR", "IIR")),
    controls=(*CONTROLS, GROUND_TRUTH, OWN),
    methods=PRINTED,
    method_titles={name: method.title for name, method in MAPS.items()},
    method_families={name: method.family for name, method in MAPS.items()},
    method_note="BIM the mean of squared noisy gradients",
    report_tasks=report_tasks,
    reasons={
        "rise": "a thousand masked images an explanation: more than all other methods together",
        COSTLY[0]: "625 gradients an explanation; left out of the quick run",
        "integrated_gradients_gray": "a baseline for CLEVR-XAI's figures; Integrated Gradients itself is scored",
        "integrated_gradients_median": "a baseline for CLEVR-XAI's figures; Integrated Gradients itself is scored",
        "lrp_clevr_xai": "its rule for the first layer needs inputs between 0 and 1; see LRP-α1β0",
    },
    pictures={
        "mcs_examples": (
            "Rows of images of objects on scenes, each with the maps of all methods under the network of objects and "
            "under the network of scenes; the object is outlined.",
            "Model contrast: the same image explained to the network of objects (first row of each pair) and to that "
            "of scenes (second row). The outlined object should be bright in the first only.",
        ),
        "idr_examples": (
            "Rows of scenes with and without a pasted object, each with the maps of all methods under the network of "
            "scenes; the place of the object is outlined.",
            "Input dependence: a scene with the object and without it, under the network of scenes. The outlined place "
            "should be darker where the object covers it.",
        ),
        "iir_examples": (
            "Rows of scenes with and without a patch that changes no answer, each with the maps of all methods.",
            "Input independence: a scene without and with a patch that means nothing to the network. Both rows of a "
            "pair should be alike.",
        ),
        "rmcs_scores": (
            "Curves, one a method: the contrast between a network that saw dogs in some scenes and one that saw them "
            "in all, over the number of scenes with dogs.",
            "Relative model contrast: it should fall towards zero as dogs appear in more scenes.",
        ),
    },
    more_metrics={
        "rmcs": METRICS["RMCS"].about,
        "tcav": "TCAV: how often moving along the direction of a concept in a layer raises the class's score. The "
        "contrast between two networks is BIM's own measure for a method that gives no map.",
    },
    trends=(
        Trend(
            "rmcs",
            "Relative model contrast",
            "How much more a map gives a dog under a network that saw dogs in so many scenes than under one that saw "
            "them in all ten. The curve should fall to zero from left to right; a method without sense of it is flat.",
            "scene_model",
            "scenes with dogs in the network's training, 1 to 9",
        ),
        Trend(
            "tcav",
            "TCAV of the concept “dog”",
            "Share of images whose class score rises along the concept's direction, layer by layer. A half is what a "
            "direction without meaning would give.",
            "layer",
            "layers, from the input to the scores",
            "model",
        ),
        Trend(
            "tcav_contrast",
            "TCAV: the difference between two networks",
            "BIM's measure for a method that gives no map: more is better.",
            "layer",
            "layers, from the input to the scores",
            "model",
        ),
    ),
    beside_paper="The paper's figures are of photographs and of other networks; the drawings here have none to be held "
    "against.",
)
