"""The page of benchmarks: a job replaces its own section and no other."""

import xml.etree.ElementTree as ET
from pathlib import Path

from benchmarks import page
from benchmarks.job import Job, Section
from benchmarks.picture import Bar, bars

ORDER = ["members", "memory"]


def job(name: str) -> Job:
    return Job(name, f"About {name}", "", lambda _: None, lambda _: Section(""))


def test_a_job_replaces_its_own_section_and_no_other(tmp_path: Path) -> None:
    page.write(tmp_path, job("memory"), Section("much"), ORDER)
    page.write(tmp_path, job("members"), Section("slow\n\n### Shuffled\n"), ORDER)
    page.write(tmp_path, job("members"), Section("fast", {"seconds": "<svg/>"}), ORDER)
    text = (tmp_path / "benchmarks.md").read_text()
    assert "slow" not in text
    assert text.index("## About members\n\nfast\n") < text.index("## About memory\n\nmuch\n")
    assert (tmp_path / "images" / "seconds.svg").read_text() == "<svg/>"


def test_sections_of_jobs_that_are_gone_and_pages_of_another_shape_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "benchmarks.md").write_text("# Something else\n")
    page.write(tmp_path, job("gone"), Section("old"), [*ORDER, "gone"])
    page.write(tmp_path, job("memory"), Section("much"), ORDER)
    text = (tmp_path / "benchmarks.md").read_text()
    assert "Something else" not in text
    assert "old" not in text
    assert "much" in text


def test_a_picture_is_well_formed_whatever_its_labels_are() -> None:
    root = ET.fromstring(bars("A < B & C", [Bar('"x" <y>', 2, "2 s", ours=True), Bar("z", 1, "1 s")]))
    widths = [float(one.attrib["width"]) for one in root.iter() if one.attrib.get("class", "").startswith("bar")]
    assert widths[0] == 2 * widths[1]
    assert '"x" <y>' in [one.text for one in root.iter()]
