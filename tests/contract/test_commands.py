"""What a user types: the ``openstack`` client's commands that are measured, and their neighbours.

Each flow ends as it began, so that the cloud can be looked at when all are done.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from cumulet.drivers import qcow2
from tests.contract.clients import ADMIN, Shell, until
from tests.process.cumulet import Cloud


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def test_the_first_minute(shell: Shell, up: Cloud) -> None:
    """As the lines say that ``cumulet up`` prints: the console script itself, and its interactive mode."""
    listed = shell.script("server", "list", "-f", "json")
    assert (listed.returncode, json.loads(listed.stdout)) == (0, [])
    typed = shell.script(lines="flavor list -f value -c Name\nimage list -f value -c Name -c Status\n")
    assert "m1.tiny" in typed.stdout
    assert "tiny active" in typed.stdout
    assert (up.directory / "clouds.yaml").stat().st_mode & 0o777 == 0o600
    # The variables that --write-env writes serve as well.
    with Shell(up, variables=up.variables) as admin:
        assert admin.get("token issue", as_="")["user_id"] == admin.get("user show admin", as_="")["id"]


def test_versions_and_catalogue(shell: Shell, up: Cloud) -> None:
    versions = shell.get("versions show")
    newest = {
        row["Service Type"]: (row["Version"], row["Min Microversion"], row["Max Microversion"])
        for row in versions
        if row["Status"] == "CURRENT"
    }
    assert newest == {
        "identity": (newest["identity"][0], None, None),
        "image": (newest["image"][0], None, None),
        "compute": ("2.1", "2.1", "2.104"),
        "block-storage": ("3.0", "3.0", "3.71"),
        "network": ("2.0", None, None),
        "placement": ("1.0", "1.0", "1.39"),
    }
    assert newest["identity"][0].startswith("3.")
    assert newest["image"][0].startswith("2.")
    assert all(row["Endpoint"].startswith(up.url) for row in versions)
    catalogue = shell.get("catalog list")
    assert set(column(catalogue, "Type")) == {*newest, "volumev3"}
    for service in catalogue:
        assert all(endpoint["url"].startswith(up.url) for endpoint in service["Endpoints"])
    assert shell.get("catalog show compute")["type"] == "compute"
    assert column(shell.get("region list"), "Region") == ["RegionOne"]
    assert len(shell.get("endpoint list", as_=ADMIN)) == 3 * len(catalogue)
    extensions = column(shell.get("extension list --network"), "Alias")
    assert {"router", "security-group", "quotas", "binding"} <= set(extensions)


def test_flavors_and_key_pairs(shell: Shell, tmp_path: Path) -> None:
    flavors = {row["Name"]: row for row in shell.get("flavor list")}
    assert (flavors["m1.tiny"]["VCPUs"], flavors["m1.tiny"]["RAM"], flavors["m1.tiny"]["Disk"]) == (1, 512, 1)
    assert shell.get("flavor show m1.tiny")["id"] == flavors["m1.tiny"]["ID"]
    made = shell.get(
        "flavor create --ram 64 --disk 0 --vcpus 1 --property hw:mem_page_size=small f", as_=ADMIN
    )
    assert made["properties"] == {"hw:mem_page_size": "small"}
    assert "f" in column(shell.get("flavor list"), "Name")
    assert "Policy doesn't allow" in shell.fails("flavor delete f")
    shell.text("flavor delete f", as_=ADMIN)
    assert "No Flavor found for f" in shell.fails("flavor show f")

    assert "PRIVATE KEY" in shell.text("keypair create k")
    public = shell.text("keypair show --public-key k")
    (tmp_path / "k.pub").write_text(public)
    shell.get(f"keypair create --public-key {tmp_path}/k.pub again")
    keys = {row["Name"]: row["Fingerprint"] for row in shell.get("keypair list")}
    assert keys["k"] == keys["again"]
    assert column(shell.get("keypair list", as_=ADMIN), "Name") == []
    assert "already exists" in shell.fails(f"keypair create --public-key {tmp_path}/k.pub k")
    shell.text("keypair delete k again")
    assert shell.get("keypair list") == []


def test_images(shell: Shell, tmp_path: Path) -> None:
    disk, back = tmp_path / "disk.qcow2", tmp_path / "back"
    disk.write_bytes(qcow2.empty(1 << 30) + os.urandom(1 << 20))
    options = "--disk-format qcow2 --container-format bare --property os_distro=debian --tag old --min-disk 1"
    made = shell.get(f"image create --file {disk} {options} i")
    assert (made["status"], made["size"], made["visibility"]) == ("active", disk.stat().st_size, "shared")
    assert made["properties"]["os_distro"] == "debian"
    shell.text(f"image save --file {back} i")
    assert back.read_bytes() == disk.read_bytes()
    shell.text("image set --property os_version=13 --name j i")
    shell.text("image set --tag new j")
    shown = shell.get("image show j")
    assert (shown["id"], shown["min_disk"]) == (made["id"], 1)
    assert shown["properties"]["os_version"] == "13"
    assert sorted(shown["tags"]) == ["new", "old"]
    assert column(shell.get("image list --property os_version=13"), "ID") == [made["id"]]
    assert set(column(shell.get("image list"), "Name")) == {"tiny", "j"}
    assert "tiny" in column(shell.get("image list", as_=ADMIN), "Name")
    nobody = "--os-username nobody --os-password wrong"
    assert "401" in shell.fails(f"{nobody} image show j")
    project = shell.get("project show admin", as_=ADMIN)["id"]
    shell.text(f"image add project j {project}")
    shell.text(f"image set --accept {made['id']}", as_=ADMIN)
    assert "j" in column(shell.get("image list --shared", as_=ADMIN), "Name")
    assert "No Image found for none" in shell.fails("image show none")
    shell.text("image set --protected j")
    assert "protected" in shell.fails("image delete j")
    shell.text("image set --unprotected j")
    shell.text("image delete j")
    assert column(shell.get("image list"), "Name") == ["tiny"]


def test_a_server_from_its_create_to_its_delete(shell: Shell) -> None:
    shell.text("keypair create k")
    made = shell.get(
        "server create --wait --flavor m1.tiny --image tiny --network private --key-name k --property role=web "
        "--description first s"
    )
    assert (made["status"], made["OS-EXT-STS:vm_state"], made["key_name"]) == ("ACTIVE", "active", "k")
    (address,) = made["addresses"]["private"]
    assert address.startswith("10.0.0.")
    listed = shell.get("server list")
    assert [(row["Name"], row["Status"], row["Image"], row["Flavor"]) for row in listed] == [
        ("s", "ACTIVE", "tiny", "m1.tiny")
    ]
    assert listed[0]["Networks"] == {"private": [address]}
    shown = shell.get("server show s")
    assert (shown["id"], shown["properties"], shown["description"]) == (made["id"], {"role": "web"}, "first")
    assert shown["flavor"]["name"] == "m1.tiny"
    assert shown["image"].startswith("tiny (")

    log = shell.text("console log show s")
    assert "login:" in log
    assert shell.text("console log show --lines 1 s").strip() in log

    shell.text("server set --name t --property role=db --tag blue s")
    assert shell.get("server list --name ^t$")[0]["ID"] == made["id"]
    assert shell.get("server list --tags blue")[0]["ID"] == made["id"]
    assert shell.get("server list --status SHUTOFF") == []

    shell.text("server stop t")
    until(lambda: shell.get("server show t")["status"] == "SHUTOFF", "the server to stop")
    shell.text("server start t")
    until(lambda: shell.get("server show t")["status"] == "ACTIVE", "the server to start")
    shell.text("server reboot --hard t")
    until(lambda: shell.get("server show t")["status"] == "ACTIVE", "the server to come up")
    shell.text("server lock --reason mine t")
    assert shell.get("server show t")["locked_reason"] == "mine"
    assert shell.get("server list --locked")[0]["ID"] == made["id"]
    shell.text("server unlock t")

    events = shell.get("server event list t")
    assert [row["Action"] for row in reversed(events)] == [
        "create", "stop", "start", "reboot", "lock", "unlock",
    ]  # fmt: skip
    first = shell.get(f"server event show t {events[-1]['Request ID']}")
    assert first["action"] == "create"
    assert first["events"][0]["result"] == "Success"

    shell.text("server delete --wait t")
    assert shell.get("server list") == []
    assert "No Server found for t" in shell.fails("server show t")
    assert "No Server found for t" in shell.fails("server delete t")
    assert made["id"] in column(shell.get("server list --deleted --all-projects", as_=ADMIN), "ID")
    assert shell.get(f"server event list {made['id']}", as_=ADMIN)[0]["Action"] == "delete"
    shell.text("keypair delete k")


def test_what_a_server_has(shell: Shell) -> None:
    """Volumes, floating addresses, ports, security groups of a server without networks, and with one."""
    server = shell.get("server create --flavor m1.tiny --image tiny --nic none bare")
    until(lambda: shell.get("server show bare")["status"] == "ACTIVE", "the server to come up")
    assert shell.get("server show bare")["addresses"] == {}
    shell.get("server create --flavor m1.tiny --image tiny --network private wired")
    until(lambda: shell.get("server show wired")["status"] == "ACTIVE", "the server to come up")

    volume = shell.get("volume create --size 1 v")
    until(lambda: shell.get("volume show v")["status"] == "available", "the volume")
    added = shell.get("server add volume bare v")
    assert (added["Volume ID"], added["Server ID"]) == (volume["id"], server["id"])
    assert column(shell.get("server volume list bare"), "Volume ID") == [volume["id"]]
    until(lambda: shell.get("volume show v")["status"] == "in-use", "the volume to be in use")
    (attached,) = shell.get("volume list --long")[0]["Attached to"]
    assert attached["server_id"] == server["id"]
    assert "must be available" in shell.fails("volume delete v")
    shell.text("server remove volume bare v")
    until(lambda: shell.get("volume show v")["status"] == "available", "the volume to be free")
    assert shell.get("server volume list bare") == []
    shell.text("volume delete v")

    floating = shell.get("floating ip create public")["floating_ip_address"]
    shell.text(f"server add floating ip wired {floating}")
    assert floating in shell.get("server show wired")["addresses"]["private"]
    (row,) = shell.get("floating ip list")
    assert (row["Floating IP Address"], row["Fixed IP Address"]) == (
        floating,
        shell.get("server show wired")["addresses"]["private"][0],
    )
    shell.text(f"server remove floating ip wired {floating}")
    assert floating not in shell.get("server show wired")["addresses"]["private"]
    shell.text(f"floating ip delete {floating}")
    assert shell.get("floating ip list") == []

    shell.get("port create --network private p")
    shell.text("server add port bare p")
    (port,) = shell.get("port list --server bare")
    assert port["Name"] == "p"
    shell.text("server remove port bare p")
    until(lambda: shell.get("port show p")["device_id"] == "", "the port to be given back")
    shell.text("port delete p")
    shell.text("server add network bare private")
    until(lambda: "private" in shell.get("server show bare")["addresses"], "the address")

    shell.get("security group create g")
    shell.text("server add security group wired g")
    assert {"name": "g"} in shell.get("server show wired")["security_groups"]
    assert "in use" in shell.fails("security group delete g")
    shell.text("server remove security group wired g")
    shell.text("security group delete g")
    shell.text("server delete bare wired")
    until(lambda: shell.get("server list") == [], "the servers to be gone")
    assert column(shell.get("port list --device-owner compute:nova"), "ID") == []


def test_networks(shell: Shell) -> None:
    shell.get("network create n")
    subnet = shell.get("subnet create --network n --subnet-range 192.168.7.0/24 --dns-nameserver 9.9.9.9 sn")
    assert (subnet["gateway_ip"], subnet["dns_nameservers"]) == ("192.168.7.1", ["9.9.9.9"])
    assert {"n", "private", "public"} <= set(column(shell.get("network list"), "Name"))
    assert "n" not in column(shell.get("network list --external"), "Name")
    port = shell.get("port create --network n --fixed-ip subnet=sn,ip-address=192.168.7.9 p")
    assert port["fixed_ips"][0]["ip_address"] == "192.168.7.9"
    assert column(shell.get("port list --network n"), "ID") == [port["id"]]
    assert "192.168.7.9 is in use" in shell.fails(
        "port create --network n --fixed-ip ip-address=192.168.7.9 q"
    )

    shell.get("router create r")
    shell.text("router add subnet r sn")
    shell.text("router set --external-gateway public r")
    router = shell.get("router show r")
    (outside,) = router["external_gateway_info"]["external_fixed_ips"]
    assert outside["ip_address"].startswith("172.24.4.")
    assert router["interfaces_info"][0]["ip_address"] == "192.168.7.1"
    floating = shell.get("floating ip create --port p public")
    assert floating["fixed_ip_address"] == "192.168.7.9"
    assert "floating" in shell.fails("router unset --external-gateway r")
    shell.text(f"floating ip delete {floating['id']}")
    shell.text("router unset --external-gateway r")
    assert shell.get("router show r")["external_gateway_info"] is None
    assert "409" in shell.fails("router delete r")
    shell.text("router remove subnet r sn")
    shell.text("router delete r")

    shell.get("security group create --description web g")
    rule = shell.get("security group rule create --protocol tcp --dst-port 80:81 --remote-ip 10.0.0.0/8 g")
    assert (rule["port_range_min"], rule["port_range_max"], rule["direction"]) == (80, 81, "ingress")
    assert "already exists" in shell.fails(
        "security group rule create --protocol tcp --dst-port 80:81 --remote-ip 10.0.0.0/8 g"
    )
    rules = shell.get("security group rule list g")
    assert [row["Port Range"] for row in rules if row["ID"] == rule["id"]] == ["80:81"]
    shell.text("port set --security-group g p")
    assert "in use" in shell.fails("security group delete g")
    shell.text("port delete p")
    shell.text(f"security group rule delete {rule['id']}")
    shell.text("security group delete g")
    shell.text("subnet set --name other sn")
    assert shell.get("subnet show other")["id"] == subnet["id"]
    shell.text("subnet delete other")
    shell.text("network delete n")
    assert "No Network found for n" in shell.fails("network show n")


def test_volumes(shell: Shell) -> None:
    made = shell.get("volume create --size 1 --description d --property a=b v")
    assert made["status"] in ("creating", "available")
    until(lambda: shell.get("volume show v")["status"] == "available", "the volume")
    shell.text("volume set --name w --property c=d v")
    shown = shell.get("volume show w")
    assert (shown["id"], shown["properties"], shown["description"]) == (made["id"], {"a": "b", "c": "d"}, "d")
    shell.get("volume snapshot create --volume w s")
    until(lambda: shell.get("volume snapshot show s")["status"] == "available", "the snapshot")
    assert "snapshot" in shell.fails("volume delete w")
    shell.get("volume create --snapshot s copy")
    shell.text("volume set --size 2 w")
    until(lambda: shell.get("volume show w")["size"] == 2, "the volume to grow")
    until(lambda: shell.get("volume show copy")["status"] == "available", "the copy")
    assert {row["Name"]: row["Size"] for row in shell.get("volume list")} == {"w": 2, "copy": 1}
    assert {"__DEFAULT__", "standard"} <= set(column(shell.get("volume type list"), "Name"))
    assert shell.get("volume backup list") == []
    shell.text("volume delete copy")
    shell.text("volume snapshot delete s")
    until(lambda: shell.get("volume snapshot list") == [], "the snapshot to be gone")
    shell.text("volume delete w")
    until(lambda: shell.get("volume list") == [], "the volumes to be gone")
    bootable = shell.get("volume create --size 1 --image tiny b")
    until(lambda: shell.get("volume show b")["status"] == "available", "the volume")
    assert shell.get("volume show b")["bootable"] is True
    server = shell.get("server create --flavor m1.tiny --volume b --nic none s")
    until(lambda: shell.get("server show s")["status"] == "ACTIVE", "the server")
    shown = shell.get("server show s")
    assert shown["image"] == "N/A (booted from volume)"
    assert shown["volumes_attached"][0]["id"] == bootable["id"]
    shell.text(f"server delete --wait {server['id']}")
    until(lambda: shell.get("volume show b")["status"] == "available", "the volume to be free")
    shell.text("volume delete b")
    until(lambda: shell.get("volume list") == [], "the volumes to be gone")


def test_what_an_operator_sees(shell: Shell) -> None:
    hypervisors = shell.get("hypervisor list", as_=ADMIN)
    assert sorted(column(hypervisors, "Hypervisor Hostname")) == ["h1", "h2", "h3"]
    assert set(column(hypervisors, "State")) == {"up"}
    assert shell.get("hypervisor show h1", as_=ADMIN)["status"] == "enabled"
    services = shell.get("compute service list", as_=ADMIN)
    assert {row["Host"] for row in services if row["Binary"] == "nova-compute"} == {"h1", "h2", "h3"}
    shell.text("compute service set --disable --disable-reason dust h1 nova-compute", as_=ADMIN)
    assert shell.get("hypervisor show h1", as_=ADMIN)["status"] == "disabled"
    shell.text("compute service set --enable h1 nova-compute", as_=ADMIN)
    assert set(column(shell.get("network agent list", as_=ADMIN), "Alive")) == {True}
    assert set(column(shell.get("volume service list", as_=ADMIN), "State")) == {"up"}
    zones = shell.get("availability zone list")
    assert {(row["Zone Name"], row["Zone Status"]) for row in zones} == {("nova", "available")}
    assert "internal" in column(shell.get("availability zone list", as_=ADMIN), "Zone Name")

    providers = {row["name"]: row["uuid"] for row in shell.get("resource provider list", as_=ADMIN)}
    assert set(providers) == {"h1", "h2", "h3"}
    inventory = shell.get(f"resource provider inventory list {providers['h1']}", as_=ADMIN)
    assert {"VCPU", "MEMORY_MB", "DISK_GB"} <= set(column(inventory, "resource_class"))
    usage = shell.get(f"resource provider usage show {providers['h1']}", as_=ADMIN)
    assert {row["resource_class"]: row["usage"] for row in usage}["VCPU"] == 0
    assert len(shell.get("allocation candidate list --resource VCPU=1", as_=ADMIN)) == 3
    assert "403" in shell.fails("resource provider list")
    assert "403" in shell.fails("hypervisor list")
    assert shell.get("server list --all-projects", as_=ADMIN) == []


def test_quotas_and_limits(shell: Shell) -> None:
    limits = {row["Name"]: row["Value"] for row in shell.get("limits show --absolute")}
    assert (limits["instances"], limits["instances_used"], limits["total_cores_used"]) == (10, 0, 0)
    assert limits["max_total_volumes"] == 10
    shell.text("quota set --instances 1 --volumes 0 --ports 77 demo", as_=ADMIN)
    quota = {row["Resource"]: row["Limit"] for row in shell.get("quota show demo", as_=ADMIN)}
    assert (quota["instances"], quota["volumes"], quota["ports"]) == (1, 0, 77)
    assert {row["Resource"]: row["Limit"] for row in shell.get("quota show --compute")}["instances"] == 1
    refused = shell.fails("server create --flavor m1.tiny --image tiny --nic none --min 2 --max 2 s")
    assert "Quota exceeded" in refused
    assert "403" in refused
    assert "413" in shell.fails("volume create --size 1 v")
    shell.get("server create --flavor m1.tiny --image tiny --nic none s")
    used = {row["Resource"]: row for row in shell.get("quota show --usage demo", as_=ADMIN)}
    assert (used["instances"]["In Use"], used["cores"]["In Use"], used["ram"]["In Use"]) == (1, 1, 512)
    shell.text("server delete --wait s")
    shell.text("quota delete demo", as_=ADMIN)
    quota = {row["Resource"]: row["Limit"] for row in shell.get("quota show demo", as_=ADMIN)}
    assert (quota["instances"], quota["volumes"]) == (10, 10)
    assert column(shell.get("usage list", as_=ADMIN), "Project")


def test_why_there_is_no_server(shell: Shell) -> None:
    """A refusal says what is wrong; a build that found no host says why, host by host."""
    assert "No Flavor found for none" in shell.fails("server create --flavor none --image tiny --nic none s")
    assert "No Image found for none" in shell.fails(
        "server create --flavor m1.tiny --image none --nic none s"
    )
    shell.get("flavor create --ram 999999999 --disk 1 --vcpus 1 huge", as_=ADMIN)
    shell.text("quota set --ram -1 demo", as_=ADMIN)
    shell.get("server create --flavor huge --image tiny --nic none s")
    until(lambda: shell.get("server show s")["status"] == "ERROR", "the server to fail")
    fault = shell.get("server show s")["fault"]
    assert fault["message"].startswith("No valid host was found.")
    assert "3 hosts" in fault["message"]
    assert "memory" in fault["message"]
    shell.text("server delete --wait s")
    shell.text("quota delete demo", as_=ADMIN)
    shell.text("flavor delete huge", as_=ADMIN)


def test_users_projects_and_application_credentials(shell: Shell, up: Cloud, tmp_path: Path) -> None:
    shell.get("project create --description d p", as_=ADMIN)
    shell.get("user create --password pw --project p u", as_=ADMIN)
    shell.text("role add --user u --project p member", as_=ADMIN)
    (assignment,) = shell.get("role assignment list --user u --names", as_=ADMIN)
    assert (assignment["Role"], assignment["Project"]) == ("member", "p@Default")
    auth = {
        "auth_url": f"{up.url}/identity/v3", "username": "u", "password": "pw", "project_name": "p",
        "user_domain_name": "Default", "project_domain_name": "Default",
    }  # fmt: skip
    clouds: dict[str, Any] = {"clouds": {"u": {"auth": auth}}}
    file = tmp_path / "clouds.yaml"
    file.write_text(json.dumps(clouds))
    with Shell(up, variables={"OS_CLIENT_CONFIG_FILE": str(file)}) as own:
        assert own.get("server list", as_="u") == []
        credential = own.get("application credential create --role member ac", as_="u")
        clouds["clouds"]["ac"] = {
            "auth_type": "v3applicationcredential",
            "auth": {
                "auth_url": auth["auth_url"], "application_credential_id": credential["ID"],
                "application_credential_secret": credential["Secret"],
            },
        }  # fmt: skip
        file.write_text(json.dumps(clouds))
        assert own.get("keypair list", as_="ac") == []
        assert "tiny" in column(own.get("image list", as_="ac"), "Name")
        # It makes no credentials in its turn, and is worth nothing once it is gone.
        assert "403" in own.fails("application credential create more", as_="ac")
        own.text("application credential delete ac", as_="u")
        assert "401" in own.fails("server list", as_="ac")
        shell.text("user set --password other u", as_=ADMIN)
        assert "401" in own.fails("server list", as_="u")
    shell.text("user delete u", as_=ADMIN)
    shell.text("project delete p", as_=ADMIN)
    assert "No Project found" in shell.fails("project show p", as_=ADMIN)
