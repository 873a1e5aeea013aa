"""Reports: what is put in comes out twice, as Markdown and as a page, and no text is taken for markup."""

import re

import pytest

from fairseq_attn_plugin.analysis.pages.document import Document

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
NASTY = "<script>x</script> a|b *c* _d_ `e` [f](g) #"


@pytest.fixture
def document(tmp_path):
    (tmp_path / "sub folder").mkdir()
    (tmp_path / "sub folder" / "x.png").write_bytes(PNG)
    result = Document(f"Title {NASTY}")
    result.heading("One")
    result.subheading("Two")
    result.paragraph(f"Text\n {NASTY}")
    result.table(["name", "number", "both"], [[NASTY, 1.5, "2,000 (+3.1)"], ["b", None, "-"]])
    result.picture(tmp_path / "sub folder" / "x.png", "A picture", lambda path: path.write_bytes(PNG))
    result.link(tmp_path / "sub folder" / "x.png", "A link")
    result.code("a ``` b")
    return result


def test_markdown(document, tmp_path):
    parts = document.markdown(tmp_path).split("\n\n")
    escaped = r"\<script\>x\</script\> a\|b \*c\* \_d\_ \`e\` \[f\](g) \#"
    assert parts[0] == f"# Title {escaped}"
    assert parts[1:4] == ["## One", "### Two", f"Text {escaped}"]
    rows = [[cell.strip() for cell in line.strip("| ").split(" |")] for line in parts[4].split("\n")]
    assert rows[0] == ["name", "number", "both"]
    assert rows[2:] == [[escaped, "1.50", "2,000 (+3.1)"], ["b", "\u2013", "-"]]
    assert re.fullmatch(r"\|:-+\|-+:\|-+:\|", parts[4].split("\n")[1])
    assert len({len(line) for line in parts[4].split("\n")}) == 1  # columns line up
    assert parts[5:7] == ["![A picture](sub%20folder/x.png)", "[A link](sub%20folder/x.png)"]
    assert parts[7] == "````\na ``` b\n````\n"  # a fence longer than the one in it


def test_html(document, tmp_path):
    html = document.html(tmp_path)
    assert "<script>x" not in html
    assert html.count("&lt;script&gt;x&lt;/script&gt; a|b *c*") == 4  # the title is there twice
    assert '<a href="sub%20folder/x.png">A link</a>' in html and html.count("data:image/png;base64,") == 1
    assert '<th scope="col" class="number">number</th>' in html and "<td>b</td>" in html
    assert '<td class="number">1.50</td>' in html and '<td class="number">2,000 (+3.1)</td>' in html
    assert "<pre>a ``` b</pre>" in html


def test_a_table_without_rows(tmp_path):
    document = Document("x")
    document.table(["a", "b"], [])
    assert re.search(r"\| a +\| b +\|\n\|-+\|-+\|", document.markdown(tmp_path))
    assert "<th" in document.html(tmp_path)
