"""The generated page of benchmarks, and its charts."""

import xml.etree.ElementTree as ET
from pathlib import Path

from benchmarks import page
from benchmarks.chart import Bar, bar_chart
from benchmarks.job import Job, Section

ORDER = ["members", "memory"]


def job(name: str) -> Job:
    return Job(name, f"About {name}", "", {}, lambda _: Section(""))


def test_job_replaces_only_its_own_section(tmp_path: Path) -> None:
    page.write_section(tmp_path, job("memory"), Section("much"), ORDER)
    page.write_section(tmp_path, job("members"), Section("slow\n\n### Shuffled\n"), ORDER)
    page.write_section(tmp_path, job("members"), Section("fast", {"seconds": "<svg/>"}), ORDER)
    text = (tmp_path / "explanation" / "benchmarks.md").read_text()
    assert "slow" not in text
    assert text.index("## About members\n\nfast\n") < text.index("## About memory\n\nmuch\n")
    assert (tmp_path / "images" / "seconds.svg").read_text() == "<svg/>"


def test_sections_of_removed_jobs_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "explanation").mkdir()
    (tmp_path / "explanation" / "benchmarks.md").write_text("# Something else\n")
    page.write_section(tmp_path, job("removed"), Section("old"), [*ORDER, "removed"])
    page.write_section(tmp_path, job("memory"), Section("much"), ORDER)
    text = (tmp_path / "explanation" / "benchmarks.md").read_text()
    assert "Something else" not in text
    assert "old" not in text
    assert "much" in text


def test_chart_escapes_its_labels() -> None:
    root = ET.fromstring(bar_chart("A < B & C", [Bar('"x" <y>', 2, "2 s", highlighted=True), Bar("z", 1, "1 s")]))
    widths = [float(one.attrib["width"]) for one in root.iter() if one.attrib.get("class", "").startswith("bar")]
    assert widths[0] == 2 * widths[1]
    assert '"x" <y>' in [one.text for one in root.iter()]
