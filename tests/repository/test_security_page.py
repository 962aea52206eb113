"""Tests named on the security page exist. The threat model and its picture show the same flows."""

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.parts.documentation import definitions

# Attacks that the page must list. Others may follow.
ATTACKS = {
    "API token without its permissions",
    "Bodies",
    "Bypassing the second factor",
    "Changing a link",
    "Clients that do not read",
    "Common passwords",
    "Dashboard: cookies",
    "Dashboard: forged forms",
    "Dashboard: pages",
    "Dashboard: secrets",
    "Demo in production",
    "Finding out which emails exist",
    "Flood of links and downloads",
    "Forged Host",
    "Forged or foreign ID token",
    "Forged headers of a proxy",
    "Forged tokens",
    "Guessing a code quickly",
    "Guessing a code slowly",
    "Guessing a password",
    "Hidden requests",
    "Hiding traces",
    "Leaks",
    "Local users",
    "Locking out the owner by wrong codes",
    "Logged-out session",
    "Login as denial of service",
    "Memory by pipelining",
    "Old session on a stricter account",
    "Operator pages with a password alone",
    "Passkey response for another site, login or purpose",
    "Ranges",
    "Reading another Leader",
    "Reading the activity of colleagues",
    "Redirects to other sites",
    "Replayed code",
    "Replayed passkey response",
    "Replayed, injected or foreign sign-in response",
    "SQL injection",
    "Session fixation",
    "Slow heads, bodies and forms",
    "Stale grant, seat or account",
    "Stale password, session or link",
    "Stolen state database",
    "Taking a seat with its email",
    "Unattended dashboard",
    "Using up recovery codes",
    "Using up the limit of all logins",
    "Weak secrets",
    "DNS rebinding of a webhook",
    "Finding out emails with a password reset",
    "Forged webhooks",
    "Hiding traces by switching off mails",
    "Reading mail on the way",
    "Requests to internal addresses by webhooks",
    "Secrets of webhooks in a stolen database",
    "Taking a seat with a password reset",
    "Webhooks by colleagues and other accounts",
}


def _rows(project_folder: Path) -> list[str]:
    page = (project_folder / "docs" / "explanation" / "security.md").read_text("utf-8")
    return [line for line in page.partition("## Every check")[2].splitlines() if line.startswith("| ")][1:]


def test_security_page_lists_every_attack_once(project_folder: Path) -> None:
    listed = [row.split("|")[1].strip() for row in _rows(project_folder)]
    assert set() == ATTACKS - set(listed)
    assert [attack for attack, number in Counter(listed).items() if number > 1] == []


def test_every_attack_has_tests_that_exist(project_folder: Path) -> None:
    missing = []
    for row in _rows(project_folder):
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row)
        assert named, row
        for file, name in named:
            path = project_folder / "tests" / file
            if not path.exists() or name not in definitions(path):
                missing.append(f"{file}::{name}")
    assert missing == []


def test_picture_shows_every_flow_of_the_threat_model(project_folder: Path) -> None:
    page = (project_folder / "docs" / "explanation" / "threat-model.md").read_text("utf-8")
    picture = ET.parse(project_folder / "docs" / "images" / "data-flows.svg").getroot()
    listed = re.findall(r"^\| (\d+)\. ", page, re.MULTILINE)
    assert len(listed) > 10
    assert picture.attrib["aria-labelledby"].split() == [picture[0].attrib["id"], picture[1].attrib["id"]]
    described = re.findall(r"Flow (\d+):", picture[1].text or "")
    drawn = [text.text for text in picture.iterfind(".//{*}g[@class='number']/{*}text")]
    assert listed == described == drawn
