from hda.cli.text import paragraphs, table, wrap


def test_a_sentence_is_wrapped_at_a_width():
    assert wrap("one  two\nthree four", 9) == "one two\nthree\nfour"


def test_an_option_is_not_broken_at_its_hyphens():
    assert wrap("give --skip-broken now", 14) == "give\n--skip-broken\nnow"


def test_paragraphs_are_wrapped_and_examples_are_not():
    text = "one two three\nfour\n\n  hda fit   --source a very long line\n  hda demo\n\nfive six"
    assert paragraphs(text, 9) == (
        "one two\nthree\nfour\n\n  hda fit   --source a very long line\n  hda demo\n\nfive six"
    )


def test_a_table_lines_up_words_to_the_left_and_numbers_to_the_right():
    assert table(("name", "images", "venue"), [("hdan", "1,200", "NeurIPS 2020"), ("source-only", "7", "")]) == (
        "name         images  venue\n"
        "-----------  ------  ------------\n"
        "hdan          1,200  NeurIPS 2020\n"
        "source-only       7"
    )


def test_signs_and_a_missing_number_are_numbers_and_versions_are_not():
    shown = table(("", "gain", "std", "version"), [("a", "+12.5", "0.3", "2.11.0"), ("b", "\u22121.0", "\u2013", "26")])
    assert shown.splitlines()[2:] == ["a  +12.5  0.3  2.11.0", "b   \u22121.0    \u2013  26"]


def test_a_table_without_rows_is_its_header():
    assert table(("name", "x"), []) == "name  x\n----  -"
