import numpy as np

from clevr_xai.training import augmentation


def images(number=400):
    """Half gray 100, half gray 140: mean 120, all channels alike."""
    values = np.full((number, 8, 8, 3), 100, np.uint8)
    values[:, :, 4:] = 140
    return values


def test_the_same_draws_give_the_same_images_and_leave_the_given_ones():
    given = images(5)
    first, second = (augmentation.relit(given, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert first.dtype == np.uint8
    np.testing.assert_array_equal(given, images(5))


def test_half_of_the_images_stay_as_they_are():
    given = images(2000)
    kept = (augmentation.relit(given, np.random.default_rng(0)) == given).all(axis=(1, 2, 3))
    assert abs(kept.mean() - (1 - augmentation.RELIT)) < 0.04
    assert not (augmentation.changed(given, np.random.default_rng(0)) == given).all(axis=(1, 2, 3)).any()


def test_exposure_contrast_and_colour_stay_in_their_ranges(monkeypatch):
    monkeypatch.setattr(augmentation, "FADED", 0.0)
    monkeypatch.setattr(augmentation, "NOISE", 0.0)
    altered = augmentation.changed(images(), np.random.default_rng(0)).astype(float)
    green = altered[..., 1].mean(axis=(1, 2)) / 120
    assert 1 / augmentation.GAIN - 0.02 <= green.min() < 0.7 and 1.5 < green.max() <= augmentation.GAIN + 0.02
    contrast = (altered[:, :, 4:, 1].mean(axis=(1, 2)) - altered[:, :, :4, 1].mean(axis=(1, 2))) / (40 * green)
    assert (
        1 - augmentation.CONTRAST - 0.04 <= contrast.min() < 0.8
        and 1.2 < contrast.max() <= 1 + augmentation.CONTRAST + 0.04
    )
    warmth = altered[..., 0].mean(axis=(1, 2)) / altered[..., 2].mean(axis=(1, 2))
    assert warmth.min() < 0.85 and warmth.max() > 1.18


def test_some_images_are_faded_and_half_of_those_towards_black(monkeypatch):
    for name in ("GAIN", "NOISE", "CONTRAST", "TEMPERATURE"):
        monkeypatch.setattr(augmentation, name, 1.0 if name == "GAIN" else 0.0)
    monkeypatch.setattr(augmentation, "BLACK", 0.5)
    altered = augmentation.changed(images(4000), np.random.default_rng(0)).astype(float)
    difference = altered[:, 0, 4, 0] - altered[:, 0, 0, 0]
    faded = difference < 39
    assert abs(faded.mean() - augmentation.FADED) < 0.03
    share = 1 - difference[faded] / 40
    level = (altered[faded, 0, 0, 0] - (1 - share) * 100) / np.maximum(share, 0.2)
    dark = level[share > 0.5] < 3
    assert 0.4 < dark.mean() < 0.6
    even = difference == 0
    assert abs(even[faded].mean() - augmentation.EVEN) < 0.06
    assert abs((altered[even] == 0).all(axis=(1, 2, 3)).mean() - augmentation.BLACK) < 0.1


def test_noise_is_what_is_said(monkeypatch):
    monkeypatch.setattr(augmentation, "FADED", 0.0)
    monkeypatch.setattr(augmentation, "CONTRAST", 0.0)
    monkeypatch.setattr(augmentation, "GAIN", 1.0)
    monkeypatch.setattr(augmentation, "TEMPERATURE", 0.0)
    altered = augmentation.changed(np.full((300, 16, 16, 3), 128, np.uint8), np.random.default_rng(0))
    deviations = altered.std(axis=(1, 2, 3))
    assert deviations.max() < augmentation.NOISE * 1.15 and abs(deviations.mean() - augmentation.NOISE / 2) < 0.3
