"""How to read each metric and each control, in a few plain sentences; texts of the report, and no figures."""

from __future__ import annotations


def _flowing(texts: dict) -> dict:
    """Return the texts on one line each."""
    return {name: " ".join(text.split()) for name, text in texts.items()}


# benchmark -> its name and its paper
PAPERS = {
    "svea": ("SVEA", "Sattarzadeh, Sudhakar and Plataniotis, ICCV Workshops 2021"),
    "bim": ("BIM", "Yang and Kim, Benchmarking Attribution Methods with Relative Feature Importance, 2019"),
    "clevr_xai": ("CLEVR-XAI", "Arras, Osman and Samek, Information Fusion 81, 2022"),
}
BENCHMARKS = _flowing(
    {
        "svea": """
            Signals of 40 points carry one of ten shapes. A small network tells them apart; the question is
            whether the 12 points around the highest point of a map, the region of explanation, are the points
            that matter.
        """,
        "bim": """
            Objects are pasted on scenes, and networks are trained to name one or the other. So it is known
            beforehand for which network the object matters, and a map of attributions either shows it or not.
            The images here are drawn; figures of the paper, which are of photographs, cannot be compared with
            them.
        """,
        "clevr_xai": """
            A network answers questions about rendered scenes. The program behind a question says which objects
            it is about, and the scene which pixels these are: that is where a map should be.
        """,
    }
)
METRICS = _flowing(
    {
        ("svea", "roe_test"): """
            Linear classifiers are trained on the regions alone and asked for the class. The figure is the
            percentage of test signals they get right: more is better. The test rewards whoever finds the shape,
            and a peak of the signal often is the shape.
        """,
        ("svea", "drop"): """
            The network sees the region alone, the rest set to zero. The figure is the mean loss of its
            confidence in percent of what it was: less is better.
        """,
        ("svea", "increase"): """
            The share of signals, in percent, of which the network is more confident when it sees the region
            alone: more is better.
        """,
        ("bim", "mcs"): """
            Model contrast score: the object's mean attribution under a network that names objects, minus that
            under one that names scenes. Between -1 and 1; more is better, zero is what a map without knowledge
            of the network gets.
        """,
        ("bim", "idr"): """
            Input dependence rate: how often a network of scenes attributes less to a pasted object than to the
            piece of scene it covers. More is better; chance is near one half.
        """,
        ("bim", "iir"): """
            Input independence rate: how often a patch that changes nothing in the network's answer changes the
            attribution of its place by less than a tenth. More is better, but a map that ignores the network
            gets it all: read it beside the model contrast.
        """,
        ("bim", "rmcs"): """
            Relative model contrast: a dog's attribution under a network that saw dogs in i of ten scenes, minus
            that under one that saw them in all ten, where it says nothing. It should fall towards zero as i
            grows.
        """,
        ("bim", "tcav"): """
            TCAV: how often moving along the direction of a concept in a layer raises the class's score. The
            contrast between two networks is BIM's own measure for a method that gives no map.
        """,
        ("clevr_xai", "mass"): """
            Relevance mass accuracy: the share of a map's total that lies on the objects the question is about.
            Between 0 and 1; more is better. A map spread evenly gets the objects' share of the image.
        """,
        ("clevr_xai", "rank"): """
            Relevance rank accuracy: of as many highest pixels as the objects have, the share that lies on them.
            Between 0 and 1; more is better. It does not see how much stronger the highest pixels are.
        """,
    }
)
CONTROLS = {
    "raw_signal": "the classifiers see all 40 points; a region that scores less hides more than it shows",
    "template_position": "the region lies where the shape really is: a bound for every method, not a rival",
    "argmax_abs": "the region lies at the largest absolute value of the signal; no network is asked",
    "fixed_centre": "the region is always the middle of the signal",
    "random_window": "the region lies anywhere, drawn at random for each signal",
    "random": "a map of random numbers",
    "centre_prior": "a soft spot in the middle of the image, the same for all images",
    "edge_detector": "the edges of the image itself; no network is asked",
    "uniform": "a map that is the same everywhere; it scores the objects' share of the image",
    "wrong_class": "the method's map for another answer than the network gives",
    "permuted_question": "the method's map after the words of the question were exchanged for another's",
    "random_weights": "the method's map on a network whose weights are random",
}
