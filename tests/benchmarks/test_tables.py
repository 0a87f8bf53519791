"""Tables, pages and the data of the plot."""

import pytest
from driver import table
from driver.cases import QUICK, select
from driver.plot import panels


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0, "0"),
        (0.0123, "0.012"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (123.4, "123"),
        (1234567.8, "1,234,568"),
    ],
)
def test_numbers_have_three_digits(value, text):
    assert table.number(value) == text


def test_columns_of_the_text_are_aligned(row):
    lines = table.text(
        [
            row("us", ours=[[1e-6]], NIXL=[[2e-6]], limit=[[1e-6]]),
            row("us", case="9 blocks with a longer name", ours=[[1000e-6]], NIXL=[[500e-6]], limit=[[250e-6]]),
        ]
    ).splitlines()
    assert lines[0].split() == "measured unit ours NIXL ours : NIXL limit of the limit".split()
    ends = {line.index("us") for line in lines[2:]}
    assert len(ends) == 1
    assert len({len(line) for line in lines}) == 1
    assert lines[3].split()[-6:] == ["1,000", "500", "0.500", "x", "250", "25%"]


def test_columns_without_figures_are_left_out(row):
    headings = table.markdown([row("us", ours=[[1e-6]])]).splitlines()[0]
    assert headings == "| measured | unit | ours |"


def test_further_participants_have_columns(row):
    rows = [row("us", ours=[[1e-6]], NIXL=[[2e-6]], **{"NIXL, other": [[3e-6]]})]
    lines = table.markdown(rows).splitlines()
    assert lines[0] == "| measured | unit | ours | NIXL | ours : NIXL | NIXL, other | ours : NIXL, other |"
    assert lines[2] == "| 8 x 4 KiB: WRITE | us | 1.00 | 2.00 | 2.00 x | 3.00 | 3.00 x |"
    assert {line.count("|") for line in lines} == {8}


def test_rounds_that_disagree_are_told(row):
    it = row("us", ours=[[1e-6], [1e-6], [2e-6]], NIXL=[[3e-6], [1e-6], [10e-6]], limit=[[1e-6], [0.6e-6], [1.5e-6]])
    assert table.cells(it, [])[4:] == ["3.00 x (1.00 x to 5.00 x)", "1.00", "75%"]


def test_page_keeps_what_is_not_its_figures(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- figures: host -->\nold\n<!-- end of figures -->\nbetween\n"
        "<!-- figures: tcp -->\nkept\n<!-- end of figures -->\nafter\n"
    )
    assert table.replace_section(page, "host", r"| new \1 |")
    assert page.read_text() == (
        "before\n<!-- figures: host -->\n| new \\1 |\n<!-- end of figures -->\nbetween\n"
        "<!-- figures: tcp -->\nkept\n<!-- end of figures -->\nafter\n"
    )
    assert not table.replace_section(page, "micro", "x")


def test_plot_has_a_line_per_participant_and_operation_by_block_size(row):
    chosen = [case for group, case in select(("host",), QUICK, ["private"]) if case.plot]
    small, large = chosen[0], chosen[1]
    measured = [
        (large, [row("GB/s", 1e9, ours=[[0.5]], NIXL=[[1.0]])]),
        (small, [row("GB/s", 1e9, ours=[[1.0]]), row("us", ours=[[1e-6]])]),
    ]
    (panel,) = panels(measured).values()
    assert panel == {
        ("ours", "WRITE"): [(small.plot[1], 1.0), (large.plot[1], 2.0)],
        ("NIXL", "WRITE"): [(large.plot[1], 1.0)],
    }
