"""The frame of all pages: nothing in a text ends an element or a script, and nothing comes from a network."""

import json
import re
from html.parser import HTMLParser

import pytest
from jinja2 import UndefinedError

from fairseq_attn_plugin.analysis.pages.frame import page

NASTY = ["</script><script>alert(1)</script>", "<!-- <script>", "a\u2028b\u2029c", "\"'&<>", "\ud800"]


class Elements(HTMLParser):
    """Start tags with their attributes, and all text, of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("text", NASTY)
def test_text_in_a_script_element_is_only_text(text):
    found = Elements(page("frame.html", "t", script="let a = 1;", data=[text]))
    assert [tag for tag, _ in found.tags].count("script") == 2
    written = found.text[found.text.index("let a = 1;") - 2]
    assert not re.search("[<>&\ud800]", written)
    assert json.loads(written) == [text.replace("\ud800", "?")]


def test_numbers_that_json_does_not_have_are_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        page("frame.html", "t", data=[float("nan")])


def test_page_escapes_its_title_and_runs_its_own_script_only():
    text = page("frame.html", "a <b> & c", style="p > a { color: red }", script="run()")
    assert "<title>a &lt;b&gt; &amp; c</title>" in text and "p > a { color: red }" in text
    policy = next(attributes["content"] for tag, attributes in Elements(text).tags if "http-equiv" in attributes)
    assert "default-src 'none'" in policy and "connect-src 'none'" in policy
    # the digest of "run()": printf 'run()' | openssl dgst -sha256 -binary | base64
    assert "script-src 'sha256-AvyuiL0SD1mVY3NNxR+V2uo+lhk6RMFrytWmRt6CrJQ='" in policy
    text = page("frame.html", "t\udce4", connect=True)  # a character that UTF-8 cannot encode
    assert "connect-src 'self'" in text and "script-src 'none'" in text and "<title>t?</title>" in text


def test_a_value_that_a_template_needs_cannot_be_left_out():
    with pytest.raises(UndefinedError, match="blocks"):
        page("report.html", "t")
