"""What ``--help`` prints: what a command does and costs, then its flags by what they are about."""

from __future__ import annotations

import textwrap

from absl import flags

# Flags of one name mean the same everywhere; within a group they stand in the order of a command's definition.
GROUPS = {
    "Network": (
        "model", "models", "models_dir", "trust_model", "score", "signature", "input_tensors", "output_tensor",
        "position", "explain_input", "keras_model", "layer", "layers", "check_model", "contrast_with", "root", "config",
        "architecture", "networks", "families", "saved_model", "start_from",
    ),
    "Data": (
        "data_dir", "image", "images", "preprocessing", "fit", "other_inputs", "class_names", "target",
        "labels", "contrast_target", "limit", "num_imgs", "num_images", "num_questions", "num_right",
        "questions", "drawn", "coco_dir", "coco_annotations", "miniplaces_dir", "num_train", "num_val",
        "validation_dir", "test_dir", "image_size", "stored_size", "traced", "compressed", "ground_truth_files",
        "benchmark", "benchmarks", "num_maps",
    ),
    "Methods": (
        "method", "methods", "steps", "step_size", "tolerance", "samples", "noise", "baseline", "batch_norm",
        "rise_masks", "controls", "random_networks", "control_methods", "counterparts", "from_maps", "compat", "allow",
        "try_methods", "libraries", "only", "child", "list_methods", "list_layers",
    ),
    "Scores": (
        "measure",
        "metric", "metrics", "degenerate_maps", "ground_truth", "pooling", "subset", "confidence", "mask_pixels",
        "compare", "num_random", "level", "top",
    ),
    "Server": ("server", "deadline", "patience", "requests", "host", "grpc_port", "rest_port"),
    "Training": (
        "epochs", "learning_rate", "checkpoint_dir", "final_questions", "seconds", "reading_steps", "seeing_steps",
        "small_steps", "following_steps", "final_steps", "pairs", "precision", "rounds", "wording",
    ),
    "What is drawn": ("overlay", "channels", "percentile", "scale", "num_pictures", "plot_format"),
    "Files to write": (
        "output", "output_dir", "input_scores", "maps", "maps_dir", "maps_pooling", "plot_dir", "pictures_dir",
        "scores_dir", "blocks_dir", "work_dir", "times", "cache_dir",
    ),
    "Run": ("quick", "seed", "batch_size", "jobs", "num_workers", "threads", "repeats", "memory", "blocks"),
    "Many processes or machines": ("runner", "workers", "block_size", "allow_failures", "runner_options"),
}  # fmt: skip
_WIDTH = 100


def help_text(flag_values: flags.FlagValues, description: str) -> str:
    """Return the answer to ``--help``.

    Parameters
    ----------
    flag_values
        The flags of a command. Those that ``GROUPS`` does not know come last.
    description
        The docstring of the command's module; its last paragraph begins with "Cost:".
    """
    parts = [description.strip()]
    known = {name for names in GROUPS.values() for name in names}
    groups = {**GROUPS, "Others": [name for name in flag_values if name not in known]}
    for title, names in groups.items():
        lines = [line for name in flag_values if name in names for line in _flag(flag_values, name)]
        if lines:
            parts.append("\n".join([f"{title}:", *lines]))
    return "\n\n".join(parts)


def _flag(flag_values, name: str) -> list[str]:
    """Return the lines of one flag, with its default; none of one that is only another name."""
    flag = flag_values[name]
    if isinstance(flag, flags.Flag) and (flag.help or "").startswith("Alias for "):
        return []
    shown = ",".join(flag.default) if isinstance(flag.default, list) else flag.default
    about = f"--{name}: {flag.help}"
    lines = textwrap.wrap(about, _WIDTH, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False)
    if shown not in (None, ""):
        lines.append(f"      (default: {shown})")
    return lines
