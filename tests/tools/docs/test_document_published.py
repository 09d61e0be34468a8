from tools.docs import document_published
from tools.docs.page_parts import ROOT


def test_the_page_has_the_tables_and_correlations_of_the_published_scores():
    page = (ROOT / "docs" / "results.md").read_text("utf-8")
    for task, headings in document_published.TABLES.values():
        assert document_published.table(task, headings).strip() in page
    for title, pair in document_published.ORDERS.items():
        assert f"| {title} | {' | '.join(document_published.order(*pair))} |" in page
