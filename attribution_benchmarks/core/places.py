"""Where benchmarks and shared metrics are defined: the only place that lists the former."""

BENCHMARKS = {
    "svea": "svea.definition:BENCHMARK",
    "bim": "bim.definition:BENCHMARK",
    "bim_vit": "bim.definition:TRANSFORMER",
    "clevr_xai": "clevr_xai.definition:BENCHMARK",
    "clevr_xai_attention": "clevr_xai.definition:ATTENTION",
    "exact": "attribution_benchmarks.exact.definition:BENCHMARK",
    "xai_units": "attribution_benchmarks.exact.xai_units:BENCHMARK",
    "xai_tris": "attribution_benchmarks.exact.xai_tris:BENCHMARK",
    "sequences": "attribution_benchmarks.exact.sequences:BENCHMARK",
    "clevr_xai_contrast": "clevr_xai.contrast:BENCHMARK",
    "clevr_xai_words": "clevr_xai.words:BENCHMARK",
    "parts": "attribution_benchmarks.parts.definition:BENCHMARK",
}
SHARED_METRICS = "attribution_benchmarks.metrics.registry"
