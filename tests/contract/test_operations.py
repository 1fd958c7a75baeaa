"""What a server goes through, as a user and an operator type it."""

from __future__ import annotations

from typing import Any

from tests.contract.clients import ADMIN, Shell, until
from tests.contract.test_commands import column


def status(shell: Shell, name: str, wanted: str) -> dict[str, Any]:
    """Wait until nothing is under way and the server has the status."""

    def look() -> Any:
        shown = shell.get(f"server show {name}")
        return shown if (shown["status"], shown["OS-EXT-STS:task_state"]) == (wanted, None) else None

    found: dict[str, Any] = until(look, f"{name} to become {wanted}")
    return found


def test_asleep_rescued_and_rebuilt(shell: Shell) -> None:
    shell.get("server create --flavor m1.tiny --image tiny --network private --config-drive True s")
    status(shell, "s", "ACTIVE")
    for there, then, back in (("pause", "PAUSED", "unpause"), ("suspend", "SUSPENDED", "resume")):
        shell.text(f"server {there} s")
        status(shell, "s", then)
        assert "409" in shell.fails(f"server {there} s")
        shell.text(f"server {back} s")
        status(shell, "s", "ACTIVE")
    shell.text("server rescue --image tiny --password geheim s")
    status(shell, "s", "RESCUE")
    shell.text("server unrescue s")
    status(shell, "s", "ACTIVE")
    rebuilt = shell.get("server rebuild --image tiny --name t --property role=web --password geheim s")
    status(shell, "t", "ACTIVE")
    assert (rebuilt["name"], rebuilt["properties"], rebuilt["adminPass"]) == ("t", {"role": "web"}, "geheim")
    shell.text("server set --password geheim t")
    status(shell, "t", "ACTIVE")
    shell.text("server shelve t")
    status(shell, "t", "SHELVED_OFFLOADED")
    shell.text("server unshelve t")
    status(shell, "t", "ACTIVE")
    actions = column(shell.get("server event list t"), "Action")
    assert actions[::-1] == [
        "create", "pause", "unpause", "suspend", "resume", "rescue", "unrescue", "rebuild", "changePassword", "shelve",
        "unshelve",
    ]  # fmt: skip
    shell.text("server delete t")
    until(lambda: shell.get("server list") == [], "the server to be gone")


def test_images_and_backups(shell: Shell) -> None:
    server = shell.get("server create --flavor m1.tiny --image tiny --nic none s")
    status(shell, "s", "ACTIVE")
    made = shell.get("server image create --name saved --property kind=gold s")
    assert made["name"] == "saved"
    status(shell, "s", "ACTIVE")
    until(lambda: shell.get("image show saved")["status"] == "active", "the image to be whole")
    shown = shell.get("image show saved")["properties"]
    assert (shown["kind"], shown["instance_uuid"]) == ("gold", server["id"])
    for number in range(3):
        shell.get(f"server backup create --name b{number} --type daily --rotate 2 s")
        status(shell, "s", "ACTIVE")
    until(lambda: "b0" not in column(shell.get("image list"), "Name"), "the oldest backup to go")
    assert {"b1", "b2"} < set(column(shell.get("image list"), "Name"))
    shell.get("server create --flavor m1.tiny --image saved --nic none again")
    status(shell, "again", "ACTIVE")
    shell.text("server delete s again")
    until(lambda: shell.get("server list") == [], "the servers to be gone")
    shell.text("image delete saved b1 b2")


def test_moved(shell: Shell) -> None:
    server = shell.get("server create --flavor m1.tiny --image tiny --network private s")
    status(shell, "s", "ACTIVE")
    id, where = server["id"], "OS-EXT-SRV-ATTR:host"

    def host() -> str:
        return str(shell.get(f"server show {id}", as_=ADMIN)[where])

    first = host()
    shell.text("server resize --flavor m1.small s")
    status(shell, "s", "VERIFY_RESIZE")
    assert shell.get("server show s")["flavor"]["name"] == "m1.small"
    shell.text("server resize revert s")
    status(shell, "s", "ACTIVE")
    assert (host(), shell.get("server show s")["flavor"]["name"]) == (first, "m1.tiny")
    shell.text("server resize --flavor m1.small s")
    status(shell, "s", "VERIFY_RESIZE")
    shell.text("server resize confirm s")
    status(shell, "s", "ACTIVE")
    second = host()
    assert second != first
    assert "Policy doesn't allow" in shell.fails("server migrate s")
    shell.text(f"server migrate --host {first} {id}", as_=ADMIN)
    status(shell, "s", "VERIFY_RESIZE")
    shell.text(f"server migrate confirm {id}", as_=ADMIN)
    status(shell, "s", "ACTIVE")
    assert host() == first
    shell.text(f"server migrate --live-migration {id}", as_=ADMIN)
    status(shell, "s", "ACTIVE")
    third = host()
    assert third != first
    moves = shell.get(f"server migration list --server {id}", as_=ADMIN)
    assert [(move["Type"], move["Status"]) for move in moves] == [
        ("live-migration", "completed"), ("migration", "confirmed"), ("resize", "confirmed"), ("resize", "reverted"),
    ]  # fmt: skip
    assert (moves[0]["Source Compute"], moves[0]["Dest Compute"]) == (first, third)
    assert shell.get(f"server migration list --server {id} --type resize --status confirmed", as_=ADMIN)[0][
        "UUID"
    ]
    shell.text(f"compute service set --down {third} nova-compute", as_=ADMIN)
    shell.text(f"server evacuate {id}", as_=ADMIN)
    status(shell, "s", "SHUTOFF")
    assert host() != third
    shell.text(f"compute service set --up {third} nova-compute", as_=ADMIN)
    shell.text("server delete s")
    until(lambda: shell.get("server list") == [], "the server to be gone")
