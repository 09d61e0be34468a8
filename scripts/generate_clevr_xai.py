r"""Make a CLEVR-XAI dataset: scenes, images, mask images and questions, in the release's layout.

    python scripts/generate_clevr_xai.py --num_images=100 --output_dir=data/clevr_xai

Needs the extra ``render``: pip install -e '.[render]'. A run that was stopped goes on where it stood. Training
data are a seed, a size and smaller pictures. Their seed must not be 0: the embedded set, on which networks are judged,
begins that sequence of scenes.

    python scripts/generate_clevr_xai.py --num_images=10000 --seed=1 --image_size=192x128 --stored_size=128 \
        --output_dir=data/clevr_xai_training

The questions are in the language of CLEVR-XAI's release; --wording=plain writes this project's own sentences. Images,
programs and answers do not depend on it: the same command with the other wording rewrites the questions
of a directory. The embedded set is made by

    python scripts/generate_clevr_xai.py --num_images=200 --stored_size=128 --output_dir=clevr_xai/embedded

and its scenes and questions are compressed with gzip.

With --renderer=blender the images are rendered in Blender from the authors' files, with the same scenes, masks and
questions. It needs the extras ``render`` and ``blender`` (bpy 4.2, Python 3.11) and the folder image_generation/data of
github.com/facebookresearch/clevr-dataset-gen:

    python scripts/generate_clevr_xai.py --renderer=blender --assets=data --samples=64 --output_dir=data/blender

Cost: 2.7 CPU seconds an image of 480x320, 0.3 to 0.5 one of 192x128; in Blender with 64 samples 15 of 480x320.
"""

import re

from absl import flags

from attribution import cli
from attribution.errors import BadInput, print_line

FLAGS = flags.FlagValues()
cli.define_common_flags(FLAGS, seed=0)
flags.DEFINE_integer("num_images", 100, "how many images to make", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_list("questions", ["simple", "complex"], "kinds of questions: simple, complex", flag_values=FLAGS)
flags.DEFINE_enum("wording", "official", ["official", "plain"], "sentences of the questions", flag_values=FLAGS)
flags.DEFINE_string("output_dir", "data/clevr_xai", "directory to write to", flag_values=FLAGS)
flags.DEFINE_string("image_size", "480x320", "width x height of the rendering; masks keep it", flag_values=FLAGS)
flags.DEFINE_integer("stored_size", 0, "side of the stored images; 0 keeps the rendered size", 0, flag_values=FLAGS)
flags.DEFINE_enum("renderer", "mitsuba", ["mitsuba", "blender"], "program that makes the images", flag_values=FLAGS)
flags.DEFINE_string("assets", "", "folder of the authors' Blender files, for --renderer=blender", flag_values=FLAGS)
flags.DEFINE_string("blender_python", "", "Python with bpy 4.2; this one when empty", flag_values=FLAGS)
flags.DEFINE_integer("samples", 16, "light paths a pixel, a square number", lower_bound=1, flag_values=FLAGS)
flags.DEFINE_integer("num_workers", 0, "processes, each on one core; 0 for one a core", 0, flag_values=FLAGS)


def main(flag_values):
    """Make the dataset."""
    from attribution_benchmarks.beam.parallel_map import local_map
    from attribution_benchmarks.beam.workers import available_cores
    from clevr_xai.generation import generate

    size = re.fullmatch(r"(\d+)x(\d+)", flag_values.image_size)
    if not size:
        raise BadInput(f"--image_size={flag_values.image_size}: write WIDTHxHEIGHT, as 480x320")
    names = ("seed", "num_images", "samples", "stored_size", "renderer")
    wanted = generate.Settings(
        width=int(size[1]), height=int(size[2]), **{name: flag_values[name].value for name in names}
    )
    generate.generate(
        flag_values.output_dir,
        wanted,
        tuple(flag_values.questions),
        each=local_map(flag_values.num_workers or available_cores()),
        wording=flag_values.wording,
        assets=flag_values.assets,
        blender_python=flag_values.blender_python,
    )
    print_line(f"{wanted.num_images} images in {flag_values.output_dir}")


if __name__ == "__main__":
    cli.run(main, FLAGS, __doc__)
