"""Each program replaces its own part of the file of results."""

from tools.performance import networks


def test_each_program_replaces_its_part_of_the_results(tmp_path):
    path = tmp_path / "RESULTS.md"
    networks.write_part(path, "# Speed\n\n## a\n\nold\n")
    networks.write_part(path, "# Cost\n\nfirst")
    networks.write_part(path, "# Speed\n\n## a\n\nnew\n")
    assert path.read_text() == "# Speed\n\n## a\n\nnew\n\n# Cost\n\nfirst\n"
