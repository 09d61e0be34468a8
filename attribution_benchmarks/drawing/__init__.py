"""Drawing of synthetic images: shapes in unit coordinates, palettes and light; shared by the benchmarks."""
