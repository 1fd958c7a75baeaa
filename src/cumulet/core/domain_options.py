"""Configuration that is kept for a domain. See the API reference, "Domain configuration".

As with upstream's default (no drivers of domains' own) it is kept and shown, and nothing reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.core import domains
from cumulet.db.engine import Tx
from cumulet.errors import Forbidden, NotFound

#: What may be set, with the defaults of upstream's own configuration.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "identity": {"driver": "sql", "list_limit": None},
    "ldap": {
        "url": "ldap://localhost", "user": None, "suffix": "cn=example,cn=com", "query_scope": "one",
        "page_size": 0, "alias_dereferencing": "default", "debug_level": None, "chase_referrals": None,
        "user_tree_dn": None, "user_filter": None, "user_objectclass": "inetOrgPerson",
        "user_id_attribute": "cn", "user_name_attribute": "sn", "user_mail_attribute": "mail",
        "user_description_attribute": "description", "user_pass_attribute": "userPassword",
        "user_enabled_attribute": "enabled", "user_enabled_invert": False, "user_enabled_mask": 0,
        "user_enabled_default": "True", "user_attribute_ignore": ["default_project_id"],
        "user_default_project_id_attribute": None, "user_enabled_emulation": False,
        "user_enabled_emulation_dn": None, "user_enabled_emulation_use_group_config": False,
        "user_additional_attribute_mapping": [], "group_tree_dn": None, "group_filter": None,
        "group_objectclass": "groupOfNames", "group_id_attribute": "cn", "group_name_attribute": "ou",
        "group_members_are_ids": False, "group_member_attribute": "member",
        "group_desc_attribute": "description", "group_attribute_ignore": [],
        "group_additional_attribute_mapping": [], "tls_cacertfile": None, "tls_cacertdir": None,
        "use_tls": False, "tls_req_cert": "demand", "use_pool": True, "pool_size": 10, "pool_retry_max": 3,
        "pool_retry_delay": 0.1, "pool_connection_timeout": -1, "pool_connection_lifetime": 600,
        "use_auth_pool": True, "auth_pool_size": 100, "auth_pool_connection_lifetime": 60,
    },
}  # fmt: skip
#: Kept, and never shown.
SENSITIVE: Mapping[str, frozenset[str]] = {"ldap": frozenset({"password"})}
Options = Mapping[str, Mapping[str, Any]]


def _invalid(reason: str) -> Forbidden:
    return Forbidden(f"Invalid domain specific configuration: {reason}.")


def _check_name(group: str | None, option: str | None) -> None:
    if group is None:
        return
    if group not in DEFAULTS:
        raise _invalid(f"Group {group} is not supported for domain specific configurations")
    if option is not None and option not in DEFAULTS[group] and option not in SENSITIVE.get(group, ()):
        raise _invalid(
            f"Option {option} in group {group} is not supported for domain specific configurations"
        )


def _check(config: Any) -> None:
    if not isinstance(config, dict) or not config:
        raise _invalid("No options specified")
    for group, options in config.items():
        if not isinstance(options, dict) or not options:
            raise _invalid(
                f"The value of group {group} specified in the config should be a dictionary of options"
            )
        for option in options:
            _check_name(group, option)


def _missing(domain_id: str, group: str | None, option: str | None) -> NotFound:
    what = f"option {option} in group {group}" if option else f"group {group}" if group else "any options"
    return NotFound(f"Could not find {what} in domain configuration for domain {domain_id}.")


def _kept(tx: Tx, domain_id: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in tx.all(
        "select * from domain_options where domain_id = :id order by section, option", id=domain_id
    ):
        found.setdefault(row["section"], {})[row["option"]] = row["value"]["value"]
    return found


def _shown(config: Options) -> dict[str, dict[str, Any]]:
    shown = {
        group: {name: value for name, value in options.items() if name not in SENSITIVE.get(group, ())}
        for group, options in config.items()
    }
    return {group: options for group, options in shown.items() if options}


def show(tx: Tx, domain_id: str, group: str | None = None, option: str | None = None) -> dict[str, Any]:
    """All options, those of a group, or one. Raises NotFound, Forbidden for names that are none."""
    domains.show(tx, domain_id)
    _check_name(group, option)
    config = _shown(_kept(tx, domain_id))
    if group is not None:
        config = {group: config[group]} if group in config else {}
    if option is not None and group is not None:
        options = config.get(group, {})
        if option in options:
            return {option: options[option]}
        config = {}
    if not config:
        raise _missing(domain_id, group, option)
    return config


def create(tx: Tx, domain_id: str, config: Any) -> tuple[dict[str, Any], bool]:
    """Replace all options; return them, and whether there were none before. Raises NotFound, Forbidden."""
    domains.show(tx, domain_id)
    _check(config)
    new = not _kept(tx, domain_id)
    tx.run("delete from domain_options where domain_id = :id", id=domain_id)
    _store(tx, domain_id, config)
    return _shown(_kept(tx, domain_id)), new


def _store(tx: Tx, domain_id: str, config: Options) -> None:
    for group, options in config.items():
        for option, value in options.items():
            tx.run(
                "insert into domain_options (domain_id, section, option, value)"
                " values (:domain, :section, :option, :value)"
                " on conflict (domain_id, section, option) do update set value = excluded.value",
                domain=domain_id,
                section=group,
                option=option,
                value={"value": value},
            )


def update(tx: Tx, domain_id: str, config: Any, group: str | None, option: str | None) -> dict[str, Any]:
    """Change options; with a group or option only that, which must be there. Raises NotFound, Forbidden."""
    domains.show(tx, domain_id)
    _check_name(group, option)
    if group is not None and option is not None:
        config = {group: config}
    _check(config)
    if group is not None:
        if set(config) != {group} or (option is not None and set(config[group]) != {option}):
            raise _invalid(
                f"Trying to update {f'option {option} in ' if option else ''}group {group}, so that, and only that, "
                "must be specified in the config"
            )
        kept = _kept(tx, domain_id).get(group)
        if kept is None or (option is not None and option not in kept):
            raise _missing(domain_id, group, option)
    _store(tx, domain_id, config)
    return _shown(_kept(tx, domain_id))


def delete(tx: Tx, domain_id: str, group: str | None, option: str | None) -> None:
    """Remove all options, those of a group, or one. Raises NotFound, Forbidden."""
    domains.show(tx, domain_id)
    _check_name(group, option)
    if group is not None:
        kept = _kept(tx, domain_id).get(group)
        if kept is None or (option is not None and option not in kept):
            raise _missing(domain_id, group, option)
    tx.run(
        "delete from domain_options where domain_id = :id"
        + (" and section = :section" if group is not None else "")
        + (" and option = :option" if option is not None else ""),
        id=domain_id,
        **({"section": group} if group is not None else {}),
        **({"option": option} if option is not None else {}),
    )


def default(group: str | None, option: str | None) -> dict[str, Any]:
    """The defaults: all, of a group, or one. Raises Forbidden for names that are none."""
    _check_name(group, option)
    if group is None:
        return {name: dict(options) for name, options in DEFAULTS.items()}
    if option is None:
        return {group: dict(DEFAULTS[group])}
    if option not in DEFAULTS[group]:
        raise _invalid(f"Reading the default for option {option} in group {group} is not supported")
    return {option: DEFAULTS[group][option]}
