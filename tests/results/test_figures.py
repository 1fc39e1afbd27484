"""The figures: what they draw, in which colours, and that the same data give the same bytes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.colors import to_hex
from PIL import Image

from papd.errors import ConfigError
from papd.results import figures, load
from tests.synthetic_runs import write_run, write_sweep


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = tmp_path_factory.mktemp("sweep")
    write_sweep(folder, seeds=3, iterations=30)
    table = load(folder)
    table["rule"] = [
        figures.rule_label(rule, h1, None if np.isnan(h2) else h2)
        for rule, h1, h2 in zip(table["lr"], table["h1"], table["h2"], strict=True)
    ]
    return table


def test_a_row_a_metric_a_column_an_environment_a_line_a_group(frame: pd.DataFrame) -> None:
    figure = figures.curves(frame, by="rule", columns="env", cost_limit=10.0)
    axes = np.array(figure.axes).reshape(4, 2)
    assert [axis.get_title() for axis in axes[0]] == ["SafetyBallRun-v0", "SafetyCarRun-v0"]
    assert [axis.get_ylabel() for axis in axes[:, 0]] == list(figures.LABELS.values())
    assert [len(axis.lines) for axis in axes[:, 0]] == [3, 4, 3, 3]
    assert all(axis.get_xlabel() == "Steps ($10^3$)" for axis in axes[-1])
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["constant 0.0005", "InvLin 0.001/3", "InvQua 0.015/6", "cost limit 10"]


def test_line_is_the_mean_and_band_the_minimum_and_maximum(frame: pd.DataFrame) -> None:
    one = frame[(frame["env"] == "SafetyCarRun-v0") & (frame["lr"] == "invqua")]
    figure = figures.curves(one, by="rule", metrics=("return_mean",))
    (axis,) = figure.axes
    by_step = one.groupby("env_steps")["return_mean"]
    np.testing.assert_allclose(axis.lines[0].get_ydata(), by_step.mean())
    np.testing.assert_allclose(axis.lines[0].get_xdata(), by_step.mean().index / 1e3)
    (area,) = [c for c in axis.collections if isinstance(c, FillBetweenPolyCollection)]
    corners = area.get_paths()[0].vertices[:, 1]
    assert corners.max() == pytest.approx(by_step.max().max())
    assert corners.min() == pytest.approx(by_step.min().min())


def test_cost_limit_is_a_dashed_line_in_the_cost_panels_only(frame: pd.DataFrame) -> None:
    figure = figures.curves(frame, by="rule", metrics=("return_mean", "cost_mean"), cost_limit=10.0)
    limits = [[line for line in axis.lines if list(line.get_ydata()) == [10.0, 10.0]] for axis in figure.axes]
    assert [len(found) for found in limits] == [0, 1]
    assert limits[1][0].get_linestyle() == "--"


def test_rules_keep_their_colours_whatever_else_is_drawn() -> None:
    few = figures.looks(["InvQua 0.015/6"])
    many = figures.looks(["x", "constant 0.0001", "InvLin 0.001/3", "y", "InvQua 0.015/6", "constant 0.5"])
    assert few["InvQua 0.015/6"].colour == many["InvQua 0.015/6"].colour == figures.VERMILLION
    assert many["InvLin 0.001/3"].colour == figures.BLUE
    assert many["constant 0.0001"].colour == figures.SKY
    assert len({look.colour for look in many.values()}) == 6


def test_many_groups_stay_distinguishable() -> None:
    groups = [f"method {index}" for index in range(20)] + ["InvLin 1/1", "InvLin 2/2"]
    assert len({(look.colour, look.dashes) for look in figures.looks(groups).values()}) == 22


@pytest.mark.parametrize("width", [figures.COLUMN, figures.PAGE])
def test_saved_in_three_formats_at_the_width_of_the_paper(
    frame: pd.DataFrame, tmp_path: Path, width: float
) -> None:
    figure = figures.curves(frame, by="rule", cost_limit=10.0, kind="iqm", width=width)
    written = figures.save(figure, tmp_path / "curves.v1")
    assert [path.name for path in written] == ["curves.v1.pdf", "curves.v1.svg", "curves.v1.png"]
    assert Image.open(written[2]).width == round(width * 300)
    assert written[0].read_bytes().startswith(b"%PDF")
    assert b"<svg" in written[1].read_bytes()


def test_everything_drawn_is_inside_the_figure_and_texts_do_not_overlap(frame: pd.DataFrame) -> None:
    figure = figures.curves(frame, by="rule", columns="env", cost_limit=10.0)
    renderer = figure.canvas.get_renderer()
    boxes = [figure.legends[0].get_window_extent(renderer)]
    for axis in figure.axes:
        assert axis.yaxis.label.get_fontsize() >= 8.0
        assert min(label.get_fontsize() for label in axis.get_yticklabels()) >= 7.0
    boxes += [axis.xaxis.label.get_window_extent(renderer) for axis in figure.axes[-2:]]
    for index, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert not any(box.overlaps(other) for other in boxes[index + 1 :])


def test_same_data_same_bytes(frame: pd.DataFrame, tmp_path: Path) -> None:
    contents = []
    for name in ("a", "b"):
        figure = figures.curves(frame, by="rule", metrics=("cost_mean",), cost_limit=10.0)
        contents.append([path.read_bytes() for path in figures.save(figure, tmp_path / name)])
    assert contents[0] == contents[1]


def test_training_figure_of_one_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", iterations=60)
    figure = figures.training_figure(run)
    assert figure.get_suptitle() == "run, SafetyCarRun-v0, twin, ppol, InvQua 0.015/6"
    assert [axis.get_ylabel() for axis in figure.axes] == list(figures.LABELS.values())
    assert [len(axis.lines) for axis in figure.axes] == [1, 2, 1, 1]


def test_training_figure_of_several_constraints(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"cost_limit": [10.0, 5.0]}, iterations=5)
    table = pd.read_csv(run / "metrics.csv")
    for name in ("cost_mean_edge", "cost_mean_speed", "multiplier_edge", "multiplier_speed"):
        table[name] = 1.0
    table.to_csv(run / "metrics.csv", index=False, lineterminator="\n")
    figure = figures.training_figure(run)
    assert [len(axis.lines) for axis in figure.axes] == [1, 4, 2, 1]
    assert [text.get_text() for text in figure.axes[1].get_legend().get_texts()] == ["edge", "speed"]


def test_hostile_names_are_drawn_as_text(tmp_path: Path) -> None:
    name = "$\\frac{1}{0}$ <script>\n_^"
    frame = load(
        write_run(tmp_path / "run", iterations=3), write_run(tmp_path / "other", {"seed": 1}, iterations=3)
    )
    frame["rule"] = np.where(frame["run"] == "run", name, "x")
    figure = figures.curves(frame, by="rule", metrics=("cost_mean",))
    (written,) = figures.save(figure, tmp_path / "figure", formats=("svg",))
    assert "<script>" not in written.read_text()
    assert "&lt;script&gt;" in written.read_text()


def test_a_missing_column_is_told(frame: pd.DataFrame) -> None:
    with pytest.raises(ConfigError, match=r"no column 'rules'; did you mean 'rule'"):
        figures.curves(frame, by="rules")


def test_palette_is_okabe_and_itos() -> None:
    assert {to_hex(colour).upper() for colour in figures.SPARE} == {
        "#000000",
        "#E69F00",
        "#56B4E9",
        "#009E73",
        "#F0E442",
        "#0072B2",
        "#D55E00",
        "#CC79A7",
    }
