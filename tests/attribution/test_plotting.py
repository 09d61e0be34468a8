"""Drawings: every step is a function with a law, and what is drawn is what was given."""

import io

import numpy as np
import pytest
from PIL import Image

import attribution
from attribution import plotting
from attribution.errors import BadInput

GENERATOR = np.random.default_rng(4)
IMAGES = GENERATOR.random((2, 12, 10, 3), dtype=np.float32)
SIGNALS = GENERATOR.normal(size=(2, 20, 2)).astype(np.float32)


def drawn(figure):
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return np.asarray(Image.open(stream).convert("RGB"))


def test_the_scale_is_symmetric_exactly_where_there_are_signs():
    assert plotting.colour_limits(np.array([-1.0, 3.0]), 100) == (-3.0, 3.0)
    assert plotting.colour_limits(np.array([0.0, 3.0]), 100) == (0.0, 3.0)
    assert plotting.colour_limits(np.zeros(4)) == (0.0, 1.0)
    values = np.r_[np.ones(999), 50.0]
    assert plotting.colour_limits(values, 99)[1] == 1.0 and plotting.colour_limits(values, 100)[1] == 50.0
    sparse = np.r_[np.zeros(999), 50.0]  # whose percentile is zero: the largest value is the end
    assert plotting.colour_limits(sparse, 50) == (0.0, 50.0)


def test_the_scale_of_a_map_far_above_zero_begins_at_its_least_value():
    assert plotting.colour_limits(np.array([2.5, 2.9]), 100) == (2.5, 2.9)
    assert plotting.colour_limits(np.array([0.5, 2.9]), 100) == (0.0, 2.9)
    assert plotting.colour_limits(np.array([-2.5, -2.9]), 100) == (-2.9, -2.5)
    assert plotting.colour_limits(np.array([-0.5, -2.9]), 100) == (-2.9, 2.9)
    assert plotting.colour_limits(np.full(4, 2.9)) == (0.0, 2.9)
    assert plotting.colour_limits(2.9 + 1e-7 * GENERATOR.random(9))[0] == 0.0  # constant, but for rounding
    assert plotting.colour_limits(np.full(4, -2.9)) == (-2.9, 2.9)
    far, signed, zero = 2.899 + 0.002 * GENERATOR.random((12, 10)), GENERATOR.normal(size=(12, 10)), np.zeros((12, 10))
    figure = attribution.plot(np.stack([far, signed, zero]), np.ones((3, 12, 10, 3)))
    maps = [image for axis in figure.axes for image in axis.images if image.get_array().shape == (12, 10)]
    assert [image.get_cmap().name for image in maps] == ["viridis", "RdBu_r", "RdBu_r"]
    assert maps[0].get_clim() == plotting.colour_limits(far) and maps[2].get_clim() == (-1, 1)
    ends = [[text.get_text() for text in axis.get_xticklabels()] for axis in figure.axes]
    assert ["2.899", "2.901"] in ends  # not 2.9 twice
    (axis,) = attribution.plot(np.full((1, 3), 2.0) + np.arange(3), np.ones((1, 3))).axes
    assert axis.get_xlim()[0] == 0  # bars begin at zero


def changed(array, value):
    array = array.astype(np.result_type(array, type(value)))
    array[1].flat[2] = value
    return array


@pytest.mark.parametrize("value", [np.nan, -np.inf])
@pytest.mark.parametrize("maps", [IMAGES, SIGNALS[..., 0], np.ones((2, 5))], ids=np.shape)
def test_values_without_a_color_are_refused(maps, value):
    inputs = IMAGES if maps.shape[1] == 12 else SIGNALS if maps.shape[1] == 20 else maps
    with pytest.raises(BadInput, match=r"^maps 'a' have NaN or infinite values, first in row 1$"):
        attribution.plot({"a": changed(maps, value)}, inputs)
    if inputs.ndim > 2:
        with pytest.raises(BadInput, match=r"^inputs have NaN or infinite"):
            attribution.plot(inputs, changed(inputs, np.nan))


class Unreadable:
    def __array__(self, *_, **__):
        raise RuntimeError("no")


def test_pixels_are_those_the_preprocessing_was_given():
    from attribution.inputs import PREPROCESSINGS

    pixels = GENERATOR.integers(0, 256, (2, 4, 5, 3)).astype(np.uint8)
    for way in PREPROCESSINGS.values():
        np.testing.assert_allclose(plotting.pixels_of(way.apply(pixels), way.name), pixels / 255.0, atol=1e-6)
    np.testing.assert_array_equal(plotting.pixels_of(pixels), pixels / 255.0)
    stretched = plotting.pixels_of(IMAGES * 7 - 3)
    assert stretched.min(axis=(1, 2, 3)).tolist() == [0, 0] and stretched.max(axis=(1, 2, 3)).tolist() == [1, 1]
    grey = plotting.pixels_of(pixels[..., :1])
    assert grey.shape == (2, 4, 5, 3) and (grey[..., 0] == grey[..., 2]).all()


def test_each_input_is_a_row_and_each_method_a_column_with_its_scale():
    maps = {"grad_cam": GENERATOR.random((2, 12, 10)), "gradient": GENERATOR.normal(size=IMAGES.shape)}
    figure = attribution.plot(maps, IMAGES, titles=["one", "two"])
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert titles == ["one", "Grad-CAM", "Vanilla Gradient", "two"]
    scales = [
        [t.get_text() for t in axis.get_xticklabels()] for axis in figure.axes if axis.get_label() == "<colorbar>"
    ]
    scales = [scale for scale in scales if len(scale) in (2, 3)]
    assert sum(scale[0] == "0" for scale in scales) >= 2 and sum(scale[0].startswith("-") for scale in scales) == 2
    assert drawn(figure).std() > 10
    signed = [
        image.get_cmap().name for axis in figure.axes for image in axis.images if image.get_cmap().name == "RdBu_r"
    ]
    assert len(signed) == 2


@pytest.mark.parametrize(("maps", "rows"), [(2, 1), (3, 2), (4, 2)])
def test_one_image_and_more_than_two_maps_take_two_rows(maps, rows):
    figure = attribution.plot({str(name): IMAGES[:1] for name in range(maps)}, IMAGES[:1])
    places = [axis.get_subplotspec() for axis in figure.axes]
    assert max(place.rowspan.stop for place in places if place) == rows


def test_signals_are_drawn_over_their_maps():
    figure = attribution.plot({"own.py:my_method": GENERATOR.normal(size=SIGNALS.shape)}, SIGNALS, titles=["a", "b"])
    plots = [axis for axis in figure.axes if axis.lines and axis.images]
    assert len(plots) == 2 and plots[0].get_title() == "my method"
    assert [axis.get_ylabel() for axis in plots] == ["a", "b"] and plots[-1].get_xlabel() == "position"
    assert [axis.get_xlabel() for axis in figure.axes if axis.get_label() == "<colorbar>"] == ["attribution"] * 2
    assert plots[0].get_yticks().tolist() == [SIGNALS[0].min(), SIGNALS[0].max()]
    np.testing.assert_array_equal(plots[1].lines[1].get_ydata(), SIGNALS[1, :, 1])
    assert plots[1].images[0].get_array().shape == (1, 20)


def test_vectors_have_a_bar_for_each_feature_with_its_name_and_value():
    rows, maps = np.array([[1.5, -28100.0, 0.25]]), {"gradient": np.array([[3.0, -1.0, 0.0]])}
    (axis,) = attribution.plot(maps, rows, titles=["row 0"], feature_names=["age", "size $x$", "pH"]).axes
    for order in ([1, 0, 2], [2, 1, 0]):  # sorted, however the features are
        turned = attribution.plot(maps["gradient"][:, order], rows[:, order]).axes[0]
        assert [bar.get_width() for bar in turned.patches] == [3.0, -1.0, 0.0]
    assert [bar.get_width() for bar in axis.patches] == [3.0, -1.0, 0.0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["age = 1.5", "size $x$ = -28100", "pH = 0.25"]
    low, high = axis.get_xlim()
    assert low == -high and high > 3 and axis.get_ylabel() == "row 0"
    tokens, embedded = np.array([["a", "dog"]]), GENERATOR.normal(size=(1, 2, 5))
    (axis,) = attribution.plot(embedded, tokens).axes
    np.testing.assert_allclose([bar.get_width() for bar in axis.patches], embedded[0].sum(axis=1))
    assert [label.get_text() for label in axis.get_yticklabels()] == ["0 = a", "1 = dog"]
    (axis,) = attribution.plot(np.ones((1, 500)), np.ones((1, 500), np.float32)).axes
    assert len(axis.patches) == 500 and len(axis.get_yticklabels()) < 30


def test_maps_of_a_layers_resolution_are_brought_to_the_inputs():
    figure = attribution.plot(GENERATOR.random((2, 4, 3)), IMAGES)
    shown = [axis.images[0].get_array() for axis in figure.axes if axis.images and axis.images[0].get_array().ndim == 2]
    assert [found.shape for found in shown] == [(12, 10)] * 2


def test_a_notebook_shows_it_without_pyplot():
    assert attribution.plot(IMAGES, IMAGES)._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("maps", "inputs", "options", "message"),
    [
        (IMAGES[:1], IMAGES, {}, r"maps '' of shape \(1, 12, 10, 3\) do not belong"),
        (IMAGES, IMAGES, {"titles": ["one"]}, "1 titles were given for 2 inputs"),
        (IMAGES[0, 0, 0], IMAGES[0, 0, 0], {}, "cannot be plotted"),
        (np.ones((2, 3)), np.ones((2, 4)), {}, "do not belong"),
        (np.ones((2, 3)), np.ones((2, 3)), {"feature_names": ["one"]}, "1 names of features were given"),
        ({}, IMAGES, {}, "nothing to plot"),
        (IMAGES, IMAGES, {"preprocessing": "torch"}, "no preprocessing 'torch'; there are '0..1'"),
        (IMAGES.astype(str), IMAGES, {}, "maps '' of type <U32 are not numbers"),
        (Unreadable(), IMAGES, {}, r"maps '': a Unreadable is not an array \(RuntimeError: no\)"),
    ],
)
def test_what_does_not_fit_is_refused(maps, inputs, options, message):
    with pytest.raises(BadInput, match=message):
        attribution.plot(maps, inputs, **options)


def test_inputs_explained_together_share_a_chart_of_bars():
    inputs = {"age": np.array([1.0, 2.0]), "size": np.array([[3.0, 4.0], [5.0, 6.0]])}
    maps = {"gradient": {name: -array for name, array in inputs.items()}}
    figure = attribution.plot(maps, inputs)
    first, second = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["size 1 = 4", "size 0 = 3", "age = 1"]
    assert [bar.get_width() for bar in second.patches] == [-6, -5, -2]
    assert len(attribution.plot(maps["gradient"], inputs).axes) == 2  # of one method
    others = {"kind": np.array([["a"], ["b"]]), "picture": np.zeros((2, 4, 4, 3))}  # not explained, so not drawn
    assert len(attribution.plot(maps, inputs | others).axes[0].get_yticklabels()) == 3
    with pytest.raises(BadInput, match="none of the inputs 'kind', 'picture' has maps by its name"):
        attribution.plot(maps, others)
    with pytest.raises(BadInput, match="maps of one input are given for inputs by name"):
        attribution.plot(inputs["age"], inputs)
    picture = np.zeros((2, 4, 4, 3))
    with pytest.raises(BadInput, match="'picture' of several inputs have positions; plot the maps of each"):
        attribution.plot({"age": inputs["age"], "picture": picture}, {"age": inputs["age"], "picture": picture})


def test_maps_on_axes_that_the_network_makes_are_refused():
    on_spectrogram = np.ones((2, 7, 17))
    for inputs in (np.ones((2, 300)), np.ones((2, 300, 1))):
        with pytest.raises(BadInput, match=r"maps 'grad_cam' of shape \(2, 7, 17\) do not belong to inputs"):
            attribution.plot({"gradient": inputs, "grad_cam": on_spectrogram}, inputs)


def test_no_value_of_a_long_map_is_lost_between_pixels():
    maps = np.zeros((1, 4100))
    maps[0, [700, 2003]] = 1, -2
    figure = attribution.plot({"gradient": maps}, np.ones((1, 4100)))
    (shown,) = next(axis.images[0].get_array() for axis in figure.axes if axis.images)
    assert len(shown) == 500 and np.flatnonzero(shown).tolist() == [700 * 500 // 4100, 2003 * 500 // 4100]
    assert shown[shown != 0].tolist() == [1, -2]
