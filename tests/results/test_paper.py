"""``papd paper`` from its command line to its pages."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from papd.cli import run
from papd.errors import ConfigError
from papd.results.paper import Request, run_paper
from papd.results.paper_experiments import EXPERIMENTS, SPECS, make_plan
from papd.results.paper_scores import READINGS
from tests.synthetic_paper import write_store


def silent(text: str) -> None:
    """Say nothing."""


def drawn(tmp_path: Path, name: str, *, twin: int, bullet: int = 0) -> str:
    """The page of an experiment from runs that nobody ran, of so many seeds."""
    plan = make_plan(EXPERIMENTS[name])
    write_store(tmp_path / "store", plan, "twin", range(twin))
    write_store(tmp_path / "store", plan, "bullet", range(bullet))
    request = Request(run=False, store=tmp_path / "store", out=tmp_path / "results")
    outcome = run_paper([name], request, silent)
    assert outcome.complete
    return (tmp_path / "results" / f"{name}.md").read_text()


def test_a_page_has_the_papers_numbers_ours_and_a_verdict_on_every_claim(tmp_path: Path) -> None:
    text = drawn(tmp_path, "robust-h2", twin=6, bullet=1)
    results = tmp_path / "results"
    for image in re.findall(r"!\[[^]]*\]\(([^)]*)\)", text):
        for ending in (".png", ".pdf", ".svg"):
            assert (results / image).with_suffix(ending).stat().st_size > 5000
    assert len(re.findall(r"!\[", text)) == 2
    for link in re.findall(r"\]\(([^)]*\.(?:csv|gz))\)", text):
        assert (results / link).exists()
    line = next(line for line in text.splitlines() if line.startswith("| ×0.8 InvQua 0.015/4.8 |"))
    assert "**545.1 ± 3.8 / 6.6 ± 5.0**" in line
    columns = [column.strip() for column in text.splitlines()[text.splitlines().index(line) - 3].split("|")]
    assert columns[1:4] == ["case", "paper", "Bullet, training"]
    assert "twin, training, 6 seeds" in columns
    assert READINGS[2].with_all_seeds(5, 20).title == "twin, training, 5 to 20 seeds"
    assert "### InvQua is more sensitive to H2'" in text
    assert "> InvQua shows larger sensitivity to H_2' (line 850)" in text
    assert len(re.findall(r"<details>", text)) == len(re.findall(r"</details>", text)) == 6 + 3 * 6
    row = next(line for line in text.splitlines() if line.startswith("| the worst H2 costs little | 850 |"))
    assert [cell.strip() for cell in row.split("|")[3:5]] == ["cannot be told at 1 seed"] * 2
    index = (results / "paper.md").read_text()
    assert row in index
    assert (
        "Not run yet: `motivation`, `runtime`, `ddpgl`." in index
    )  # The unscaled cases are others' cases too.


def test_environments_are_pooled_on_one_scale(tmp_path: Path) -> None:
    text = drawn(tmp_path, "ddpgl", twin=3)
    part = text.split("### Over all environments: twin, training")[1]
    rows = [line.split("|")[1:-1] for line in part.splitlines() if line.startswith("| Inv")]
    assert [row[0].strip() for row in rows[:2]] == [
        "InvLin 0.001/3".replace("0.001/3", "0.003/4.5"),
        "InvQua 0.045/7.5",
    ]
    # InvQua has the highest mean everywhere, by 5 of about 530.
    assert rows[1][1].strip().startswith("1.000")
    assert rows[0][1].strip().startswith("0.99")
    pairs = [
        line for line in part.splitlines() if line.startswith("| InvQua 0.045/7.5 | constant 0.0005 | 4 |")
    ]
    assert pairs[0].rstrip(" |").endswith("better")


def test_the_summary_over_blocks_is_table_3(tmp_path: Path) -> None:
    text = drawn(tmp_path, "robust-h1", twin=2)
    assert "| InvQua | paper | 542.2 / 8.3 | 531.4 ± 14.9 | 9.9 ± 3.4 |" in text
    ours = next(line for line in text.splitlines() if line.startswith("| InvQua | twin, training |"))
    runs = pd.read_csv(tmp_path / "results" / "robust-h1.runs.csv")
    own = (
        runs[(runs["backend"] == "twin") & runs["cell"].str.contains("invqua")]
        .groupby("cell")["return_mean"]
        .mean()
    )
    assert f"| {own.mean():.1f} ± {own.std():.1f} |" in ours


def test_what_was_never_run_is_said(tmp_path: Path) -> None:
    outcome = run_paper(["motivation"], Request(run=False, store=tmp_path / "s", out=tmp_path / "r"), silent)
    assert "Nothing has been run yet." in (tmp_path / "r" / "motivation.md").read_text()
    assert outcome.played == 0
    assert not (tmp_path / "r" / "motivation.runs.csv").exists()


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    """Figure 1 on the Ball, with a network and a budget that take a second."""
    text = (SPECS / "motivation.toml").read_text()
    text = text.replace("SafetyCarRun-v0", "SafetyBallRun-v0")
    small = "steps = 800\nhidden_sizes = [8]\nepisodes_per_iteration = 4\nnum_envs = 4"
    folder = tmp_path / "specs"
    folder.mkdir()
    (folder / "motivation.toml").write_text(text.replace("steps = 1_000_000", small))
    return folder


@pytest.mark.bullet
def test_the_command_runs_plays_measures_draws_and_does_nothing_twice(
    specs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["paper", "motivation", "--seeds", "1", "--episodes", "2", "--specs", str(specs), "--quiet"]
    words += ["--store", str(tmp_path / "store"), "--out", str(tmp_path / "results")]
    assert run([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"]["finished"], told["known"], told["played"]) == (4, 0, 4)
    claims = told["experiments"]["motivation"]
    assert claims[0]["verdicts"]["twin"]["verdict"] == "cannot be told at 1 seed"
    assert set(claims[0]["verdicts"]) == {"twin", "twin-policy"}
    rows = pd.read_csv(tmp_path / "results" / "motivation.runs.csv")
    assert len(rows) == 4
    assert (rows["env_steps"] == 800).all()
    assert (rows[["policy_episodes", "bullet_episodes"]] == 2).all(axis=None)
    assert rows["bullet_return"].notna().all()
    assert (tmp_path / "results" / "figures" / "motivation-twin.pdf").exists()

    files = {path.name: path.read_bytes() for path in (tmp_path / "results").glob("*.*")}
    elsewhere = [str(tmp_path / "other") if word == str(tmp_path / "store") else word for word in words]
    assert run(elsewhere) == 0
    assert "0 runs done, 4 known" in capsys.readouterr().out
    assert not (tmp_path / "other").exists()
    assert {path.name: path.read_bytes() for path in (tmp_path / "results").glob("*.*")} == files


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        (["ppo"], "no experiment 'ppo'; did you mean 'ppol'?"),
        (["ppol", "--steps", "8000"], "keep that out of results/ with another --out"),
        (["ppol", "--seeds", "0", "--out", str(tmp_path)], "seeds=0: seeds must be a whole number >= 1"),
        (["ppol", "--backend", "mujoco"], "backend is one of bullet, twin"),
        (["ppol", "--specs", str(tmp_path)], "a folder of experiments holds ppol.toml"),
    ):
        assert run(["paper", *words]) == 2
        error = capsys.readouterr().err
        assert told in error
        assert error.count("\n") == 1
    with pytest.raises(ConfigError, match="episodes=0"):
        Request(episodes=0)


def test_a_run_that_was_begun_wants_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = make_plan(EXPERIMENTS["motivation"])
    write_store(tmp_path / "store", plan, "twin", range(5))
    summary = next((tmp_path / "store").iterdir()) / "summary.json"
    summary.write_text(summary.read_text().replace("finished", "interrupted"))
    words = ["paper", "motivation", "--store", str(tmp_path / "store"), "--out", str(tmp_path / "results")]
    assert run(words) == 2
    assert "holds a run that is not finished: --resume goes on with it" in capsys.readouterr().err
