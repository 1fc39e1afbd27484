"""published.toml and the quotes of the claims against lines of the paper, copied to tests/fixtures/paper_lines.txt."""

import re
from pathlib import Path

import numpy as np
import pytest

from papd.results.paper_claims import claims_of
from papd.results.paper_experiments import EXPERIMENTS, make_plan
from papd.results.paper_published import published, row_of

LINES = {
    int(number): text
    for number, _, text in (
        line.partition("\t")
        for line in (Path(__file__).parents[1] / "fixtures" / "paper_lines.txt").read_text().splitlines()
    )
}
NUMBER = re.compile(r"\d+\.\d+|\d+")


def plain(text: str) -> str:
    """A line of the paper without its TeX."""
    text = text.replace("``", '"').replace("''", '"')
    text = re.sub(r"\\(emph|text|bf|textbf|it)\b\s*", "", text)
    text = re.sub(r"[${}~]", "", text.replace("\\,", ""))
    return re.sub(r"\s*=\s*", "=", re.sub(r"\s+", " ", text))


def cells_of(line: int, parameter: str) -> tuple[list[float], bool]:
    """Return ± deviation and cost ± deviation behind a name in a row of the robustness tables, and whether bold."""
    columns = [column.strip() for column in LINES[line].replace("\\cr", "").split("&")]
    place = next(index for index, column in enumerate(columns) if plain(column).strip() == parameter)
    found = columns[place + 1 : place + 3]
    return [float(number) for column in found for number in NUMBER.findall(column)], "bf" in found[0]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_quote_stands_in_the_line_that_it_names(experiment: str) -> None:
    claims = claims_of(experiment)
    assert claims
    for claim in claims:
        quote = re.sub(r"\s*=\s*", "=", claim.quote)
        around = " ".join(plain(LINES.get(claim.line + more, "")) for more in (-1, 0, 1))
        assert quote in around, claim.name


@pytest.mark.parametrize("row", published()["robust-h1"]["rows"], ids=lambda row: row["cell"])
def test_table_2_is_the_papers(row: dict[str, object]) -> None:
    factor, kind = str(row["cell"]).removeprefix("x").split("-")
    baseline = {"constant": "Baseline1", "invlin": "Baseline2", "invqua": "Baseline3"}[kind]
    name = baseline if factor == "1" else rf"{baseline} \times {'4.0' if factor == '4' else factor}"
    assert_row(row, name)


@pytest.mark.parametrize("row", published()["robust-h2"]["rows"], ids=lambda row: row["cell"])
def test_table_4_is_the_papers(row: dict[str, object]) -> None:
    factor, kind = str(row["cell"]).removeprefix("x").split("-")
    assert_row(row, rf"BS{1 if kind == 'invlin' else 2} \times {factor}")


def assert_row(row: dict[str, object], name: str) -> None:
    numbers, is_bold = cells_of(int(str(row["line"])), name)
    assert numbers == [row[field] for field in ("return", "return_deviation", "cost", "cost_deviation")]
    assert is_bold is row["bold"]


def test_table_1_is_the_papers() -> None:
    order = ["SafetyBallRun-v0", "SafetyCarRun-v0", "SafetyBallCircle-v0", "SafetyCarCircle-v0"]
    rows = published()["runtime"]["rows"]
    assert len(rows) == 24
    for row in rows:
        name, *columns = LINES[row["line"]].replace("\\cr", "").split("&")
        rule = plain(name).strip().replace("LR=", "constant ")
        assert row["rule"].startswith(rule)
        column = columns[order.index(row["env"])]
        assert [float(number) for number in NUMBER.findall(column)] == [row["mean"], row["deviation"]]
        assert ("bf" in column) is row["bold"]


def test_table_3_is_the_papers_and_follows_from_table_2_with_n_minus_1() -> None:
    by_kind: dict[str, list[dict[str, float]]] = {}
    for row in published()["robust-h1"]["rows"]:
        by_kind.setdefault(row["cell"].split("-")[1], []).append(row)
    for row in published()["robust-h1-summary"]["rows"]:
        printed = [float(number) for number in NUMBER.findall(plain(LINES[row["line"]].split("&", 1)[1]))]
        names = ["best_return", "best_cost", "return", "return_deviation", "cost", "cost_deviation"]
        assert printed == [row[name] for name in names]
        for what in ("return", "cost"):
            means = np.array([block[what] for block in by_kind[row["rule"]]])
            assert means.size == 8
            # The paper cuts digits off in places: 10.9975 is printed as 10.99.
            assert means.mean() == pytest.approx(row[what], abs=0.0101)
            assert means.std(ddof=1) == pytest.approx(row[f"{what}_deviation"], abs=0.0101)
            assert means.std(ddof=0) != pytest.approx(row[f"{what}_deviation"], abs=0.0101)


@pytest.mark.parametrize(
    ("experiment", "without"), [("runtime", 0), ("robust-h1", 0), ("robust-h2", 2), ("ppol", 24)]
)
def test_the_cells_of_a_spec_find_their_rows(experiment: str, without: int) -> None:
    cells = make_plan(EXPERIMENTS[experiment]).cells
    rows = [row_of(experiment, cell) for cell in cells]
    assert sum(row is None for row in rows) == without
    assert len({str(row) for row in rows if row}) == len(cells) - without


def test_what_the_notes_say_of_the_papers_numbers_is_so() -> None:
    rows = [row for name in ("robust-h1", "robust-h2") for row in published()[name]["rows"]]
    assert all(round(row["cost"] / 0.02, 6).is_integer() for row in rows)
    unscaled = {row["cell"]: row for row in published()["robust-h1"]["rows"]}
    told = {"invlin": (4.9, 2.4), "invqua": (3.7, 3.1)}
    for kind, deviations in told.items():
        mine = [row for row in published()["robust-h2"]["rows"] if row["cell"].endswith(kind)]
        mine.append(unscaled[f"x1-{kind}"])
        for what, deviation in zip(("return", "cost"), deviations, strict=True):
            assert np.std([row[what] for row in mine], ddof=1) == pytest.approx(deviation, abs=0.051)
