"""Names on pages."""

from attribution_benchmarks.report.formatting import templates


def test_names_on_pages_have_no_markup_and_no_control_characters(tmp_path):
    (tmp_path / "page.jinja").write_text("{{ name }} {{ style | safe }} {{ number }}")
    page = templates(tmp_path).get_template("page.jinja")
    shown = page.render(name="\x1b[2J<b>\u202eevil\nname", style="<b>\t</b>", number=3)
    assert shown == "\\x1b[2J&lt;b&gt;\\u202eevil\nname <b>\t</b> 3"
