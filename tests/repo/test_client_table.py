"""The table of clients in docs/clients.md says what the table in the code does."""

from pathlib import Path

from penstock.protocols.common.client_profiles import AMQP_0_9_1, PROFILES, Profile

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
YES = {"yes": True, "no": False}


def rows(first_column: str, second_column: str) -> list[dict[str, str]]:
    """Return the table that begins with these columns."""
    lines = DOCUMENT.read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"| {first_column} | {second_column} |"))
    names = cells(lines[start])
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append(dict(zip(names, cells(line), strict=True)))
    return found


def cells(line: str) -> list[str]:
    return [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]


def writing(row: Profile) -> str:
    if row.fails_when_blocked:
        return "publishes throw"
    return "yes" if row.stops_writing else "no"


def test_every_profile_is_documented_as_it_is() -> None:
    documented = {
        row["product"]: (
            "" if row["platform"] == "any" else row["platform"],
            YES[row["stops for channel.flow"]],
            YES[row["small receive buffer"]],
            not YES[row["a refused message comes back"]],
            row["stops writing"],
        )
        for row in rows("client", "product")
    }
    assert documented == {
        row.product: (row.platform, row.obeys_flow, row.small_receive_buffer, row.return_is_success, writing(row))
        for row in PROFILES.values()
        if row.protocol == AMQP_0_9_1
    }


def test_long_hold_has_a_row_for_every_client() -> None:
    held = rows("client", "version")
    versions = " ".join(row["client"] for row in rows("client", "product"))
    assert [row for row in held if f"{row['client']} {row['version']}" not in versions] == []
    assert len({row["client"] for row in held}) == 8
