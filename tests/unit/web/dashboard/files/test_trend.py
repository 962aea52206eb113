"""Row changes and sparklines."""

from daybreak.web.dashboard.files.trend import RowChange, row_change, sparkline


def test_row_change_has_direction_and_percentage() -> None:
    assert row_change(120, 100) == RowChange("+20 (+20.0 %)", "up")
    assert row_change(0, 8) == RowChange("\N{MINUS SIGN}8 (\N{MINUS SIGN}100.0 %)", "down", is_large_drop=True)
    assert row_change(5, 0).text == "+5"
    # Rows may have changed.
    assert row_change(5, 5) == RowChange("same number", "same")
    assert row_change(5, None).text == "nothing to compare"


def test_sparkline_fits_its_box() -> None:
    chart = sparkline([5, 1_000_000, 0, 7])
    assert chart is not None
    for point in chart[0].split():
        x, y = (float(part) for part in point.split(","))
        assert 0 <= x <= 100
        assert 0 <= y <= 30
    assert sparkline([3]) is None


def test_drop_of_over_a_fifth_is_large() -> None:
    assert not row_change(80, 100).is_large_drop
    assert row_change(79, 100).is_large_drop
    assert not row_change(0, None).is_large_drop


def test_sparkline_starts_at_zero() -> None:
    chart = sparkline([100, 98])
    assert chart is not None
    assert chart[0] == "0.0,2.0 100.0,2.5"
    assert sparkline([0, 0]) is not None
