"""Accessibility checks of a page with axe."""

from typing import Any

from playwright.sync_api import Page, ViewportSize

VISUAL_RULES = (
    "color-contrast",
    "scrollable-region-focusable",
    "target-size",
    "link-name",
    "button-name",
    "link-in-text-block",
)
WIDE: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
# A wide page at 125 %: the navigation is next to the page, which is narrow.
ZOOMED: ViewportSize = {"width": 1024, "height": 720}


def axe_violations(page: Page, where: str) -> list[str]:
    """Return axe violations: of all rules on a wide light page, and of the visual ones on a dark phone."""
    found = _axe(page, f"{where}, light", "{resultTypes: ['violations']}")
    page.set_viewport_size(PHONE)
    page.emulate_media(color_scheme="dark")
    found += _axe(page, f"{where}, dark phone", f"{{resultTypes: ['violations'], runOnly: {list(VISUAL_RULES)}}}")
    page.emulate_media(color_scheme="light")
    for size in (PHONE, ZOOMED, WIDE):
        page.set_viewport_size(size)
        overflow = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"{where} overflows {size} by {overflow} px"
    return found


def _axe(page: Page, where: str, options: str) -> list[str]:
    violations: list[dict[str, Any]] = page.evaluate(
        f"() => axe.run(document, {options}).then(done => done.violations)"
    )
    return [
        f"{where}: {violation['id']}: {node['html'][:200]} {node['failureSummary']}"
        for violation in violations
        for node in violation["nodes"]
    ]
