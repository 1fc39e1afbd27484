"""The report as a file: complete, self-contained, safe with hostile names, and small."""

import html.parser
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papd.errors import RunError
from papd.results import report_data
from papd.results.load import read_run, read_runs
from papd.results.report import page, write_report
from papd.runs.config import from_mapping
from tests.synthetic_runs import CONFIG, RULES, write_run, write_sweep

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;</style>\n\u2028☃ ${alert(3)} $script"


class Reader(html.parser.HTMLParser):
    """Elements, attributes, and the text outside scripts and styles."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.data = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1] == ("script", {"type": "application/json", "id": "data"}):
            self.data = self.data or data
        elif not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def payload(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    write_sweep(folder, seeds=3, iterations=30)
    return folder


def test_page_has_curves_results_differences_and_commands(sweep: Path, tmp_path: Path) -> None:
    write_report([sweep], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    reader = Reader(text)
    assert "18 runs, 6 groups, 2 environments" in reader.text
    tables = {attrs["id"] for tag, attrs in reader.elements if tag == "table" and "id" in attrs}
    assert tables == {"groups", "pairs", "runs", "differences"}
    assert "papd train SafetyCarRun-v0 --backend twin --lr invlin --h1 0.001 --h2 3.0" in reader.text
    assert f"papd report {sweep} --out {tmp_path / 'report.html'}" in reader.text
    data = payload(text)
    assert [group["label"] for group in data["groups"]] == [
        "constant 0.0005",
        "InvLin 0.001/3",
        "InvQua 0.015/6",
    ]
    assert [panel["title"] for panel in data["panels"]] == ["SafetyBallRun-v0", "SafetyCarRun-v0"]
    assert data["panels"][0]["limits"] == [10.0]


def test_page_needs_nothing_from_outside(sweep: Path) -> None:
    runs, _ = read_runs(sweep)
    text = page(runs)
    reader = Reader(text)
    for tag, attrs in reader.elements:
        assert tag not in ("iframe", "object", "embed", "base", "form", "img")
        assert "src" not in attrs
        assert attrs.get("href", "data:,") == "data:,"
    assert "http" not in re.sub(r"http-equiv|http://www\.w3\.org/2000/svg", "", text)


def test_same_runs_same_page(sweep: Path) -> None:
    assert page(read_runs(sweep)[0]) == page(read_runs(sweep)[0])


def test_curves_are_the_mean_minimum_and_maximum_over_seeds(sweep: Path) -> None:
    runs, _ = read_runs(sweep / "SafetyCarRun-v0" / "invqua")
    (panel,) = payload(page(runs))["panels"]
    (curve,) = panel["curves"]
    assert curve["steps"] == runs[0].metrics["env_steps"].tolist()
    table = np.stack([run.metrics["cost_mean"] for run in runs])
    for name, expected in (("centre", table.mean(0)), ("low", table.min(0)), ("high", table.max(0))):
        np.testing.assert_allclose(curve["metrics"]["cost_mean"][name], expected, rtol=1e-3)
    np.testing.assert_allclose(curve["metrics"]["cost_mean"]["single"], table, rtol=1e-3)


def test_hostile_names_and_values_are_text(tmp_path: Path) -> None:
    folder = HOSTILE.replace("/", "∕")
    config = {"env": HOSTILE, HOSTILE: HOSTILE, "provenance": {"papd": HOSTILE, "git_commit": HOSTILE}}
    write_run(tmp_path / folder, config, iterations=3)
    write_run(tmp_path / "plain", {"env": HOSTILE}, iterations=3)
    (tmp_path / f"bad{folder}").mkdir()
    (tmp_path / f"bad{folder}" / "config.json").write_text("{")
    (tmp_path / f"bad{folder}" / "metrics.csv").write_text("")
    with pytest.warns(UserWarning, match="left out"):
        write_report([tmp_path], tmp_path / "out.html")
    text = (tmp_path / "out.html").read_text()
    reader = Reader(text)
    assert [tag for tag, _ in reader.elements].count("script") == 2
    assert not {"img", "i"} & {tag for tag, _ in reader.elements}
    assert not [name for _, attrs in reader.elements for name in attrs if name.startswith("on")]
    assert "<script>alert(1)</script><img src=x onerror=alert(2)>" in reader.text
    assert payload(text)["panels"][0]["title"].startswith("<script>alert(1)</script>")
    assert "left out run 'bad<script>" in reader.text
    assert "\u2028" not in text


def test_the_only_script_that_may_run_is_the_pages_own(sweep: Path) -> None:
    text = page(read_runs(sweep)[0])
    policy = next(attrs["content"] for tag, attrs in Reader(text).elements if attrs.get("http-equiv"))
    assert policy is not None
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert policy.count("sha256-") == 2


def test_many_long_runs_stay_small(tmp_path: Path) -> None:
    for seed in range(110):
        rule = list(RULES)[seed % 3]
        write_run(tmp_path / f"{rule}-{seed}", {**RULES[rule], "seed": seed}, iterations=400)
    write_report([tmp_path], tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 2_000_000


def test_runs_of_different_lengths_and_without_episodes(tmp_path: Path) -> None:
    write_run(tmp_path / "a", iterations=10)
    write_run(tmp_path / "b", {"seed": 1}, iterations=40)
    silent = write_run(tmp_path / "c", {"seed": 2}, iterations=5)
    lines = (silent / "metrics.csv").read_text().splitlines()
    silenced = [",".join([*line.split(",")[:3], "nan", "nan", *line.split(",")[5:]]) for line in lines[1:]]
    (silent / "metrics.csv").write_text("\n".join([lines[0], *silenced]) + "\n")
    text = page(read_runs(tmp_path)[0])
    (curve,) = payload(text)["panels"][0]["curves"]
    cost = curve["metrics"]["cost_mean"]
    assert cost["single"][0][-1] is None
    assert cost["single"][1][-1] == cost["centre"][-1]
    assert cost["single"][2] == [None] * len(curve["steps"])
    assert cost["centre"][-1] is not None


def test_foreign_runs_with_other_metrics_and_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "config.json").write_text('{"task": "mine", "alpha": [1, [2, 3]]}')
    (folder / "metrics.csv").write_text(
        "iteration,env_steps,return_mean,cost_mean\n1,10,1.0,2.0\n2,20,3.0,4.0\n"
    )
    text = page(read_runs(folder)[0])
    assert list(payload(text)["panels"][0]["curves"][0]["metrics"]) == ["return_mean", "cost_mean"]
    assert payload(text)["panels"][0]["limits"] == []
    assert f"papd train --config {folder}/config.json" in Reader(text).text


def test_several_constraints_have_all_their_limits(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"cost_limit": [10.0, 5.0]}, iterations=3)
    assert payload(page(read_runs(tmp_path)[0]))["panels"][0]["limits"] == [5.0, 10.0]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        RULES["constant"],
        {"seed": 7, "cost_limit": [10.0, 5.0], "cost_keys": ["a b", "c"], "signed_derivative": True},
        {"algo": "ddpgl", "h1": 0.045, "h2": 7.5, "hyper": {"batch_size": 32}},
        {
            "hyper": {"normalize_advantages": False, "hidden_sizes": [64]},
            "multiplier": "fixed",
            "multiplier_fixed": [1.0],
        },
    ],
)
def test_command_repeats_the_run(tmp_path: Path, fields: dict[str, Any]) -> None:
    """What the command is read as, by the command's own parser, is the configuration of the run."""
    from papd.commands.train import read_options

    base = CONFIG if fields.get("algo") != "ddpgl" else {**CONFIG, "hyper": {}}
    run = read_run(write_run(tmp_path / "run", {**base, **fields}, iterations=1))
    words = shlex.split(report_data.command(run))
    assert words[:2] == ["papd", "train"]
    assert read_options(words[2:]).run.resolved() == from_mapping(run.source).resolved()


def test_groups_are_the_seeds_of_one_configuration(tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path / f"a{seed}", {"seed": seed, "workers": seed + 1}, iterations=2)
        write_run(tmp_path / f"b{seed}", {"seed": seed, "hyper": {"gamma": 0.9}}, iterations=2)
    groups = report_data.groups_of(read_runs(tmp_path)[0])
    assert [(group.label, len(group.runs)) for group in groups] == [
        ("InvQua 0.015/6, hyper.hidden_sizes=128 128, hyper.gamma=0.99", 3),
        ("InvQua 0.015/6, hyper.gamma=0.9", 3),
    ]


def test_a_label_names_no_field_that_is_nothing_in_its_group(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"multiplier": "pid", "multiplier_fixed": []}, iterations=2)
    write_run(tmp_path / "b", {"multiplier": "fixed", "multiplier_fixed": [5.0]}, iterations=2)
    groups = report_data.groups_of(read_runs(tmp_path)[0])
    assert [group.label for group in groups] == [
        "InvQua 0.015/6, multiplier=pid",
        "InvQua 0.015/6, multiplier=fixed, multiplier_fixed=5.0",
    ]
    assert "<td class='text short'>–</td>" in page(read_runs(tmp_path)[0])


def test_written_whole_or_not_at_all(sweep: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("old")
    with pytest.raises(RunError):
        write_report([tmp_path / "nowhere"], out)
    assert out.read_text() == "old"
    write_report([sweep], out)
    assert out.read_text().endswith("</html>\n")
    assert os.listdir(tmp_path) == ["report.html"]
