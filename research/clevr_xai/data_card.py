"""Write a card of CLEVR-XAI's data: what a directory holds beside what is published, in words and in one picture.

    python -m research.clevr_xai.data_card
    python -m research.clevr_xai.data_card --data_dir=data/clevr_xai --output=data_card.md

Without --data_dir it is the embedded set, and without --output nothing but the text is printed. The picture lies beside
the card, in --pictures_dir, under the card's name.

Cost: 9 CPU seconds for the embedded set.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Mapping

import numpy as np
from absl import flags

from attribution import cli
from attribution.errors import print_line, print_text
from attribution.file_io.files import atomic_write
from attribution.file_io.paths import check_directory
from attribution_benchmarks.core import tables
from research.clevr_xai import data_facts
from research.clevr_xai.data_facts import REAL_FILES, REAL_GREY, REAL_OBJECTS, REAL_QUESTIONS, REAL_VISIBLE, Facts

NEAR = 8  # grey levels by which a background may differ from the real one and pass for it
_HIDDEN = (0.01, 0.25, 0.5)
_OURS, _REAL, _BEHIND = "#3b5b92", "#c8553d", "#a9a9a9"

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, data_dir="", output="")
FLAGS["output"].help = "file to write the card to; .md. Its picture gets the same name, .png"
flags.DEFINE_string("pictures_dir", "pictures", "folder of the picture, beside the card", flag_values=FLAGS)
flags.DEFINE_integer("traced", 200, "scenes in which to trace what objects hide", lower_bound=1, flag_values=FLAGS)


def main(flag_values: flags.FlagValues) -> None:
    """Measure, then write the card and its picture, or print the card."""
    output = flag_values.output
    picture = ""
    if output:
        tables.check_output(output, suffixes=(".md",))
        picture = os.path.join(flag_values.pictures_dir, pathlib.Path(output).stem + ".png")
        check_directory("pictures_dir", os.path.join(os.path.dirname(output), flag_values.pictures_dir))
    facts = data_facts.collect(flag_values.data_dir, flag_values.traced)
    command = "python -m research.clevr_xai.data_card" + "".join(
        f" --{name}={flag_values[name].value}" for name in ("data_dir", "output") if flag_values[name].value
    )
    text = card(facts, flag_values.data_dir or "the embedded set", command, picture)
    if not output:
        print_text(text)
        return
    path = pathlib.Path(output).parent / picture
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = drawing(facts)
    atomic_write(path, lambda file: figure.savefig(file, format="png", dpi=100, metadata={"Software": None}))
    atomic_write(output, text)
    print_line(f"card: {output}", file=sys.stderr)
    print_line(f"picture: {path}", file=sys.stderr)


def card(facts: Facts, source: str, command: str, picture: str = "") -> str:
    """Return the card as Markdown.

    Parameters
    ----------
    facts, source
        From ``data_facts.collect``, and what the data are called.
    command, picture
        That writes this card, and the path of the picture as the card names it; none when empty.
    """
    grey = [
        [str(row), f"{facts.grey(row):.0f}", str(real), f"{facts.grey(row) - real:+.0f}"]
        for row, real in REAL_GREY.items()
    ]
    apart = [row for row, real in REAL_GREY.items() if not abs(facts.grey(row) - real) <= NEAR]
    lines = [
        "# Data card of CLEVR-XAI", "",
        f"What {source} holds, measured by `{command}`, beside what is known of the published data.", "",
        *([f"![Images, grey levels, objects, occlusion and questions beside the published]({picture})", ""]
          if picture else []),
        "## Images", "",
        f"{len(facts.images):,} images, looked at as the network sees them, 128x128. Median grey level of the "
        "background by row, and that of two pictures of the real CLEVR:", "",
        tables.markdown_table(["row of 128", "here", "real", "difference"], grey),
        f"Within {NEAR} levels of the real one: {len(REAL_GREY) - len(apart)} of {len(REAL_GREY)} rows"
        + (f"; not in row {', '.join(map(str, apart))}." if apart else "."), "",
        "## Scenes", "",
        tables.markdown_table(["", "here", "published"], _scenes(facts)),
        *[
            f"{attribute.capitalize()}: {', '.join(f'{name} {100 * share:.1f} %' for name, share in shares.items())}."
            for attribute, shares in facts.attributes.items()
        ],
        "CLEVR draws each value as often.", "",
        _occlusion(facts), "",
        "## Questions", "",
        tables.markdown_table(["", "here", "published"], _questions(facts)),
    ]  # fmt: skip
    if files := _files_of(facts):
        rows = [[name, f"{100 * files.get(name, 0):.1f}", f"{100 * share:.0f}"] for name, share in REAL_FILES.items()]
        lines += [
            "Complex questions by file of families, with the shares that the authors' generator gives:", "",
            tables.markdown_table(["file", "here, %", "theirs, %"], rows),
        ]  # fmt: skip
    return "\n".join(lines).rstrip("\n") + "\n"


def _scenes(facts: Facts) -> list[list[str]]:
    sizes, visible = facts.objects, facts.visible
    low, high = REAL_OBJECTS
    here = f"{sizes.min()} to {sizes.max()}, mean {sizes.mean():.2f}"
    rows = [["objects of a scene", here, f"{low} to {high}, each as often"]]
    rows += [
        [f"scenes of {size}", f"{100 * np.count_nonzero(sizes == size) / len(sizes):.1f} %",
         f"{100 / (high - low + 1):.1f} %"]
        for size in range(low, high + 1)
    ]  # fmt: skip
    if len(visible):
        here = f"at least {visible.min():.0f}, median {np.median(visible):,.0f}"
        rows.append(["pixels that an object shows, of 480x320", here, f"at least {REAL_VISIBLE}"])
    return rows


def _occlusion(facts: Facts) -> str:
    if not len(facts.hidden):
        return "What objects hide of each other is not measured: the scenes do not tell where the camera stood."
    shares = ", ".join(
        f"{100 * (facts.hidden > bound).mean():.1f} % are hidden by more than {100 * bound:.0f} %" for bound in _HIDDEN
    )
    return (
        f"Occlusion, of {len(facts.hidden):,} objects: {shares}. The published data say no more of it than that each "
        f"object shows {REAL_VISIBLE} pixels."
    )


def _questions(facts: Facts) -> list[list[str]]:
    rows = []
    for kind, found in facts.questions.items():
        per_image, truths = REAL_QUESTIONS[kind]
        rows.append([f"{kind} questions an image", f"{found.count / len(facts.images):.2f}", f"{per_image:.2f}"])
        rows += [
            [f"{kind}, have a mask '{name}'", f"{100 * share:.2f} %", f"{100 * truths[name]:.2f} %"]
            for name, share in found.truths.items()
        ]
    return rows


def _files_of(facts: Facts) -> Mapping[str, float]:
    """Return the shares of the files of families among complex questions, none where there are no such questions."""
    return facts.questions["complex"].files if "complex" in facts.questions else {}


def drawing(facts: Facts):
    """Return the figure of a card: eight images, and six histograms with what is published drawn in."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1, 3.6])
    shown = np.unique(np.linspace(0, len(facts.images) - 1, 8).astype(int))
    for axis, place in zip(above.subplots(1, 8), shown, strict=False):
        axis.imshow(facts.images[place])
    for axis in above.axes:
        axis.set_axis_off()
    axes = below.subplots(2, 3).reshape(-1)
    for draw, axis in zip((_rows, _levels, _counts, _sizes, _hiding, _files), axes, strict=True):
        draw(axis, facts)
        axis.spines[["top", "right"]].set_visible(False)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=8, frameon=False)
    return figure


def _rows(axis, facts: Facts) -> None:
    low, middle, high = np.nanpercentile(facts.rows, [5, 50, 95], axis=0)
    rows = np.arange(facts.rows.shape[1])
    axis.fill_between(rows, low, high, color=_OURS, alpha=0.25, linewidth=0, label="here, 5 to 95 % of images")
    axis.plot(rows, middle, color=_OURS, label="here, median")
    axis.plot(list(REAL_GREY), list(REAL_GREY.values()), "D", color=_REAL, label="real, two pictures")
    axis.set(xlabel="row, from the top", ylabel="grey level", title="Background", ylim=(0, 255))


def _levels(axis, facts: Facts) -> None:
    levels = np.arange(256)
    axis.fill_between(levels, 100 * facts.background, color=_BEHIND, alpha=0.7, linewidth=0, label="background")
    axis.plot(levels, 100 * facts.foreground, color=_OURS, label="objects")
    axis.plot(list(REAL_GREY.values()), np.zeros(len(REAL_GREY)), "D", color=_REAL, clip_on=False, zorder=5,
              label="real background")  # fmt: skip
    axis.set(xlabel="grey level", ylabel="% of pixels", title="Grey levels", xlim=(0, 255))


def _counts(axis, facts: Facts) -> None:
    sizes, counts = np.unique(facts.objects, return_counts=True)
    axis.bar(sizes, 100 * counts / len(facts.objects), color=_OURS, width=0.8)
    low, high = REAL_OBJECTS
    axis.hlines(100 / (high - low + 1), low - 0.5, high + 0.5, color=_REAL, label="as drawn by CLEVR")
    axis.set(xlabel="objects", ylabel="% of scenes", title="Objects of a scene")


def _sizes(axis, facts: Facts) -> None:
    if len(facts.visible):
        axis.hist(facts.visible, bins=np.geomspace(50, 30_000, 40), color=_OURS)
    axis.axvline(REAL_VISIBLE, color=_REAL, label="least that CLEVR allows")
    axis.margins(y=0.2)
    axis.set(xscale="log", xlabel="pixels of 480x320", ylabel="objects", title="What an object shows")


def _hiding(axis, facts: Facts) -> None:
    axis.set(xlabel="% of an object", ylabel="objects", title="Hidden by others")
    if len(facts.hidden):
        axis.hist(100 * facts.hidden, bins=np.arange(0, 101, 5), color=_OURS)
        axis.set_yscale("log")
    else:
        axis.text(0.5, 0.5, "the scenes do not tell\nwhere the camera stood", ha="center", transform=axis.transAxes)


def _files(axis, facts: Facts) -> None:
    found = _files_of(facts)
    heights = np.arange(len(REAL_FILES))[::-1]
    axis.barh(heights, [100 * found.get(name, 0) for name in REAL_FILES], color=_OURS, height=0.7)
    axis.plot([100 * share for share in REAL_FILES.values()], heights, "D", color=_REAL, label="authors' generator")
    axis.set_yticks(heights, list(REAL_FILES), fontsize=8)
    axis.set(xlabel="% of complex questions", title="Files of families")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
