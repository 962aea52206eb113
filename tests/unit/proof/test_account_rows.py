"""Row accounting of single accounts."""

from typing import Any

import msgspec

from daybreak.catalogue.written_sums import figure_names
from daybreak.proof.account_rows import account_sections
from daybreak.proof.accounting import SourceFigures, WrittenFigures
from daybreak.proof.rules import IDENTITIES

ACCOUNT, OTHER = "7d909222-adf5-4547-93e0-e8f60c50f980", "c6b3a8a2-3a45-4b5e-9d35-0f3a1c5b7e11"
RULE = "WHERE name LIKE '100%' AND \"a\""


def test_account_has_its_own_rows_and_sums() -> None:
    written = WrittenFigures([ACCOUNT, OTHER])
    sums = {client_id: [5 if name == "SEGMENT_COUNT" else 0 for name in figure_names("campaigns")]
            for client_id in (ACCOUNT, OTHER)}  # fmt: skip
    written.add_rows("campaigns", [(ACCOUNT, 1), (OTHER, 1)])
    written.add_sums("campaigns", sums)
    figures = SourceFigures([ACCOUNT, OTHER], [each for each in IDENTITIES if each.resource == "campaigns"])
    figures.add(
        [
            ("campaigns", "campaigns", ACCOUNT, "", 1, 0, 0, 0),
            ("campaigns", "campaigns", OTHER, "", 2, 0, 0, 0),
            ("campaigns", "outbound_messages", ACCOUNT, "", 3, 0, 5, 0),
            ("campaigns", "outbound_messages", ACCOUNT, RULE, 4, 0, 9, 9),
            ("campaigns", "outbound_messages", OTHER, "", 9, 0, 5, 0),
            ("campaigns", "outbound_messages", None, "unknown_leader", 6, 0, 0, 0),
        ]
    )
    section = account_sections(figures, written, {"campaigns": "unexplained", "members": "unaccounted"})

    def found(client_id: str) -> dict[str, Any]:
        value: dict[str, Any] = msgspec.json.decode(section(client_id))
        return value

    assert found(ACCOUNT) == {
        "status": "unaccounted",
        "campaigns": {
            "status": "proved",
            "campaigns": {"excluded": {}, "exported": 1, "source": 1},
            "inbound_messages": {"excluded": {}, "exported": 0, "source": 0},
            "outbound_messages": {
                "excluded": {RULE: 4}, "exported": 3, "source": 7, "sums": {"SEGMENT_COUNT": 5, "UNIT_COUNT": 0},
            },
        },
    }  # fmt: skip
    assert found(OTHER)["status"] == "unexplained"
    assert found(OTHER)["campaigns"]["campaigns"] == {"excluded": {}, "exported": 1, "source": 2}
