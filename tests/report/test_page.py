import re

import pytest

from hda.report import page


def test_page_is_one_balanced_document_that_fetches_nothing(checked):
    made = page.Page("A title", "A lead.")
    made.add("First", page.paragraph("One.", "Two."), page.table(("name", "value"), [("a", "1.5"), ("b", "\u22122")]))
    made.add("Second", page.beside(page.figure("<svg role='img'><title>t</title></svg>", "Under it."), "<p>more</p>"))
    parsed = checked(made.html())
    assert [tag for tag, _ in parsed.tags if tag in ("h1", "h2")] == ["h1", "h2", "h2"]
    assert "One. Two." in parsed.text
    assert "Under it." in parsed.text


def test_page_is_for_light_and_dark_and_narrow_windows():
    html = page.Page("t").html()
    assert "prefers-color-scheme: dark" in html
    assert 'name="viewport"' in html
    assert "default-src 'none'" in html


def test_all_text_is_escaped(checked):
    bad = "<script>alert('1 & 2')</script>"
    made = page.Page(bad, bad)
    made.add(bad, page.paragraph(bad), page.table((bad, bad), [(bad, bad)]), page.figure("", bad))
    made.add("settings", page.settings_table([(bad, bad)]))
    html = made.html()
    assert "<script" not in html
    assert checked(html).text.count(bad) >= 9


def test_undecodable_names_of_files_can_be_written():
    assert page.text("caf\udce9.png").encode("utf-8") == b"caf?.png"


def test_percent_and_equals_signs_stay_with_what_is_before_them():
    assert page.text("90.0 % of G = F") == "90.0\u00a0% of G\u00a0=\u00a0F"


def test_no_line_of_prose_breaks_within_an_arrow_and_commands_can_be_copied():
    made = page.Page("hdan on a->b", "About a->b.")
    made.add("A section", page.paragraph("Of a->b."), page.code("--task a->b"))
    assert made.html().count("a-\u2060&gt;b") == 3
    assert "--task a-&gt;b" in made.html()


def test_columns_of_numbers_stand_right_and_others_left():
    html = page.table(("n", "number", "mixed"), [("1", "1,234.5", "2"), ("2", "\u22123 %", "auto")])
    cells = re.findall(r"<(?:td|th)\b[^>]*>", html)
    assert ['class="number"' in cell for cell in cells] == [False, True, False] * 3


def test_table_without_rows_has_its_header():
    assert page.table(("a", "b"), []).count("<th ") == 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "auto"), (True, "true"), (False, "false"), (3, "3"), (0.001, "0.001"), ("sgd", "sgd"), ("a/b", "a/b")],
)
def test_settings_are_shown_as_the_command_line_names_them(value, shown):
    assert page.shown(value) == shown


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/someone/models/w.pth", "models/w.pth"),
        ("/w.pth", "w.pth"),
        (r"C:\Users\someone\models\w.pth", "models/w.pth"),
        ("models/w.pth", "models/w.pth"),
        ("0.1.0", "0.1.0"),
    ],
)
def test_absolute_paths_lose_what_only_this_machine_knows(path, shown):
    assert page.local(path) == shown


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(3.21, "3.2 seconds"), (48.3, "48 seconds"), (185.2, "3 min 5 s"), (7440, "2 h 4 min")],
)
def test_times_are_said_as_one_says_them(seconds, said):
    assert page.duration(seconds) == said
