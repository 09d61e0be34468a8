"""Losses of the Relation Network's training and of its aids."""

from __future__ import annotations

import keras
from keras import ops

from clevr_xai.training.batches import CENTRE
from clevr_xai.training.phrases import SIZES
from clevr_xai.vocabulary import ATTRIBUTES

CELL_LOSS, MEMBER_LOSS, COMPARED_LOSS, OPERAND_LOSS = 0.5, 1.0, 2.0, 1.0  # weights beside the loss of the answers
SHAPE_LOSS = 2.0  # of the cells, beside the other attributes': of all four a network reads shapes worst
PART_WEIGHT = 0.05  # of a cell that shows an object whose centre is elsewhere, beside 1


def cell_loss(targets, logits):
    """Return the mean loss of an image's cells: whether one shows an object and, where one does, its attributes."""
    present = ops.cast(targets[..., 0] >= 0, logits.dtype)
    presence = ops.binary_crossentropy(present, logits[..., 0], from_logits=True)
    weight = ops.where(targets[..., 4] == CENTRE, 1.0, PART_WEIGHT * present)
    attributes, start = 0.0, 1
    for position, (name, values) in enumerate(ATTRIBUTES.items()):
        wanted = ops.maximum(targets[..., position], 0)
        loss = ops.sparse_categorical_crossentropy(wanted, logits[..., start : start + len(values)], from_logits=True)
        attributes += loss * (SHAPE_LOSS if name == "shape" else 1.0)
        start += len(values)
    total = ops.maximum(ops.sum(weight, axis=-1), 1.0)
    return ops.mean(presence, axis=-1) + ops.sum(attributes * weight, axis=-1) / total


def member_loss(targets, logits):
    """Return the mean loss of an image's questions: over its objects and the sets that the programs find."""
    known = ops.cast(targets >= 0, logits.dtype)
    losses = ops.binary_crossentropy(ops.cast(ops.maximum(targets, 0), logits.dtype), logits, from_logits=True)
    return ops.sum(losses * known, axis=(1, 2, 3)) / ops.maximum(ops.sum(known, axis=(1, 2, 3)), 1.0) * 4.0


def compared_loss(targets, logits):
    """Return the mean loss of an image's pairs: over those of objects that are compared, plus over all others."""
    losses = ops.sparse_categorical_crossentropy(ops.maximum(targets, 0), logits, from_logits=True)
    total = 0.0
    for chosen in (targets > 0, targets == 0):
        weight = ops.cast(chosen, logits.dtype)
        total += ops.sum(losses * weight, axis=(1, 2)) / ops.maximum(ops.sum(weight, axis=(1, 2)), 1.0)
    return total


def operand_loss(targets, logits):
    """Return the mean loss of an image's questions: over both sides of those that compare."""
    known = ops.cast(targets >= 0, logits.dtype)
    losses = ops.sparse_categorical_crossentropy(ops.maximum(targets, 0), logits, from_logits=True)
    return ops.sum(losses * known, axis=(1, 2)) / ops.maximum(ops.sum(known, axis=(1, 2)), 1.0)


def program_loss(targets, logits):
    """Return the mean loss of a question: over the program's nodes, counted to its first."""
    return ops.mean(ops.sparse_categorical_crossentropy(targets, logits, from_logits=True), axis=-1) * 4.0


def phrase_loss(targets, logits):
    """Return the mean loss of a question: over the places of phrases, all that one may name together."""
    total, start = 0.0, 0
    for entry, size in enumerate(SIZES):
        part = logits[..., start : start + size]
        total += ops.sparse_categorical_crossentropy(targets[..., entry], part, from_logits=True)
        start += size
    return ops.mean(total, axis=-1) * 4.0


LOSSES = {
    "answer": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    "cells": cell_loss,
    "members": member_loss,
    "compared": compared_loss,
    "operands": operand_loss,
    "program": program_loss,
    "phrases": phrase_loss,
}
LOSS_WEIGHTS = {
    "answer": 1.0,
    "cells": CELL_LOSS,
    "members": MEMBER_LOSS,
    "compared": COMPARED_LOSS,
    "operands": OPERAND_LOSS,
    "program": 1.0,
    "phrases": 1.0,
}
